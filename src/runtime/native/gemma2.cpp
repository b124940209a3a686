// Gemma 2: norms after attention and feed-forward too, soft caps, every other layer sees a window.
#include <cmath>

#include "base/error.h"
#include "runtime/native/family.h"

namespace kaiju::runtime {

namespace {

constexpr uint32_t kLayersOf27B = 46;

class Gemma2 final : public Family {
  public:
    std::string_view architecture() const override { return "gemma2"; }
    bool may_have_head() const override { return false; }

    void describe(HyperParameters& shape, const format::KeyValues& key_values) const override {
        const auto key = [&](const char* suffix) { return key_values.arch_key(suffix); };
        shape.window = key_values.find_u32(key("attention.sliding_window")).value_or(4096);
        shape.read_window(key_values, 2);
        shape.local_rope_base = key_values.find_f32(key("rope.freq_base_swa")).value_or(shape.rope.base);
        shape.local_rope_scale = shape.rope.scale;
        shape.attention_softcap = key_values.find_f32(key("attn_logit_softcapping")).value_or(50);
        shape.logit_softcap = key_values.find_f32(key("final_logit_softcapping")).value_or(30);
        if (shape.layers == kLayersOf27B) {
            const uint32_t per_head = shape.width / shape.heads;  // whole, as the model has it
            shape.attention_scale = 1 / std::sqrt(static_cast<float>(per_head));
        }
    }

    void load_layer(Layer& layer, const std::string& prefix, const HyperParameters& shape,
                    Weights& weights) const override {
        layer.attention_post_norm = weights.vector(prefix + "post_attention_norm.weight", shape.width);
        layer.ffn_post_norm = weights.vector(prefix + "post_ffw_norm.weight", shape.width);
    }

    ggml_tensor* build(GraphBuilder& graph, const Model& model) const override {
        ggml_tensor* x = graph.scale(graph.embed(), std::sqrt(static_cast<float>(model.shape.width)));
        for (uint32_t i = 0; i < model.shape.layers; ++i) {
            const Layer& layer = model.layers[i];
            ggml_tensor* attended = graph.attention(i, graph.norm(x, layer.attention_norm));
            if (i + 1 == model.shape.layers) {
                attended = graph.wanted_rows(attended);
                x = graph.wanted_rows(x);
            }
            x = graph.add(graph.norm(attended, layer.attention_post_norm), x);
            ggml_tensor* fed = graph.gated_ffn(layer, graph.norm(x, layer.ffn_norm), Gate::gelu);
            x = graph.add(graph.norm(fed, layer.ffn_post_norm), x);
        }
        return graph.logits(graph.norm(x, model.final_norm));
    }
};

}  // namespace

const Family& gemma2_family() {
    static const Gemma2 family;
    return family;
}

}  // namespace kaiju::runtime
