// Gemma 3: Gemma 2 without soft caps, with norms on the heads of queries and keys, five local layers to a
// global one, and frequencies of their own for the local ones.
#include <cmath>

#include "runtime/native/family.h"

namespace kaiju::runtime {

namespace {

constexpr uint32_t kLayersOf27B = 62;

class Gemma3 final : public Family {
  public:
    std::string_view architecture() const override { return "gemma3"; }

    void describe(HyperParameters& shape, const format::KeyValues& key_values) const override {
        const auto key = [&](const char* suffix) { return key_values.arch_key(suffix); };
        shape.window = key_values.find_u32(key("attention.sliding_window")).value_or(0);
        if (shape.window > 0) {
            shape.read_window(key_values, 6);
            shape.local_rope_base = key_values.find_f32(key("rope.freq_base_swa")).value_or(10000);
        }
        shape.logit_softcap = key_values.find_f32(key("final_logit_softcapping")).value_or(0);
        if (shape.layers == kLayersOf27B) {
            const uint32_t per_head = shape.width / shape.heads;  // whole, as the model has it
            shape.attention_scale = 1 / std::sqrt(static_cast<float>(per_head));
        }
    }

    void load_layer(Layer& layer, const std::string& prefix, const HyperParameters& shape,
                    Weights& weights) const override {
        gemma2_family().load_layer(layer, prefix, shape, weights);
        layer.query_norm = weights.vector(prefix + "attn_q_norm.weight", shape.head_size);
        layer.key_norm = weights.vector(prefix + "attn_k_norm.weight", shape.head_size);
    }

    // The norms and caps that a layer does not have are left out by the parts.
    ggml_tensor* build(GraphBuilder& graph, const Model& model) const override {
        return gemma2_family().build(graph, model);
    }
};

}  // namespace

const Family& gemma3_family() {
    static const Gemma3 family;
    return family;
}

}  // namespace kaiju::runtime
