// Llama, and what is built like it: Mistral, TinyLlama, SmolLM2.
#include "runtime/native/family.h"

namespace kaiju::runtime {

namespace {

class Llama final : public Family {
  public:
    std::string_view architecture() const override { return "llama"; }

    void describe(HyperParameters& shape, const format::KeyValues& key_values) const override {
        shape.rope_neighbours = true;
        // The first Mistral: every layer sees a window. (llama.cpp takes no notice of the key here.)
        shape.window = key_values.find_u32(key_values.arch_key("attention.sliding_window")).value_or(0);
        if (shape.window > 0) {
            shape.local.assign(shape.layers, true);
            shape.local_rope_base = shape.rope.base;
            shape.local_rope_scale = shape.rope.scale;
        }
    }

    void load_layer(Layer& layer, const std::string& prefix, const HyperParameters& shape,
                    Weights& weights) const override {
        layer.query_bias = weights.find_vector(prefix + "attn_q.bias", shape.query_width());
        layer.key_bias = weights.find_vector(prefix + "attn_k.bias", shape.kv_width());
        layer.value_bias = weights.find_vector(prefix + "attn_v.bias", shape.kv_width());
        layer.output_bias = weights.find_vector(prefix + "attn_output.bias", shape.width);
        layer.gate_bias = weights.find_vector(prefix + "ffn_gate.bias", shape.ffn_width);
        layer.up_bias = weights.find_vector(prefix + "ffn_up.bias", shape.ffn_width);
        layer.down_bias = weights.find_vector(prefix + "ffn_down.bias", shape.width);
        // Llama 3 slows the low frequencies down, by factors that are the same for all layers.
        layer.rope_factors = weights.find_vector("rope_freqs.weight", shape.rope_size / 2);
    }

    ggml_tensor* build(GraphBuilder& graph, const Model& model) const override {
        ggml_tensor* x = graph.embed();
        for (uint32_t i = 0; i < model.shape.layers; ++i) {
            const Layer& layer = model.layers[i];
            ggml_tensor* attended = graph.attention(i, graph.norm(x, layer.attention_norm));
            if (i + 1 == model.shape.layers) {
                attended = graph.wanted_rows(attended);
                x = graph.wanted_rows(x);
            }
            x = graph.add(attended, x);
            x = graph.add(graph.gated_ffn(layer, graph.norm(x, layer.ffn_norm), Gate::silu), x);
        }
        return graph.logits(graph.norm(x, model.final_norm));
    }
};

}  // namespace

const Family& llama_family() {
    static const Llama family;
    return family;
}

}  // namespace kaiju::runtime
