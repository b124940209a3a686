// Qwen2: Llama with biases on queries, keys and values.
#include "runtime/native/family.h"

namespace kaiju::runtime {

namespace {

class Qwen2 final : public Family {
  public:
    std::string_view architecture() const override { return "qwen2"; }

    void describe(HyperParameters& /*shape*/, const format::KeyValues& /*key_values*/) const override {}

    void load_layer(Layer& layer, const std::string& prefix, const HyperParameters& shape,
                    Weights& weights) const override {
        layer.query_bias = weights.vector(prefix + "attn_q.bias", shape.query_width());
        layer.key_bias = weights.vector(prefix + "attn_k.bias", shape.kv_width());
        layer.value_bias = weights.vector(prefix + "attn_v.bias", shape.kv_width());
        layer.output_bias = weights.find_vector(prefix + "attn_output.bias", shape.width);
    }

    // The rest is Llama's.
    ggml_tensor* build(GraphBuilder& graph, const Model& model) const override {
        return llama_family().build(graph, model);
    }
};

}  // namespace

const Family& qwen2_family() {
    static const Qwen2 family;
    return family;
}

}  // namespace kaiju::runtime
