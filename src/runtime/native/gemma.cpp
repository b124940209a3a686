// Gemma: scaled embeddings, GELU gates, the head always the embedding.
#include <cmath>

#include "runtime/native/family.h"

namespace kaiju::runtime {

namespace {

class Gemma final : public Family {
  public:
    std::string_view architecture() const override { return "gemma"; }
    bool may_have_head() const override { return false; }

    void describe(HyperParameters& /*shape*/, const format::KeyValues& /*key_values*/) const override {}
    void load_layer(Layer& /*layer*/, const std::string& /*prefix*/, const HyperParameters& /*shape*/,
                    Weights& /*weights*/) const override {}

    ggml_tensor* build(GraphBuilder& graph, const Model& model) const override {
        ggml_tensor* x = graph.scale(graph.embed(), std::sqrt(static_cast<float>(model.shape.width)));
        for (uint32_t i = 0; i < model.shape.layers; ++i) {
            const Layer& layer = model.layers[i];
            ggml_tensor* attended = graph.attention(i, graph.norm(x, layer.attention_norm));
            if (i + 1 == model.shape.layers) {
                attended = graph.wanted_rows(attended);
                x = graph.wanted_rows(x);
            }
            x = graph.add(attended, x);
            x = graph.add(graph.gated_ffn(layer, graph.norm(x, layer.ffn_norm), Gate::gelu), x);
        }
        return graph.logits(graph.norm(x, model.final_norm));
    }
};

}  // namespace

const Family& gemma_family() {
    static const Gemma family;
    return family;
}

}  // namespace kaiju::runtime
