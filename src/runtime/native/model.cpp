#include "runtime/native/model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "base/error.h"
#include "runtime/native/family.h"

namespace kaiju::runtime {

std::span<const Family* const> families() {
    static const std::array<const Family*, 5> all = {&gemma_family(), &gemma2_family(), &gemma3_family(),
                                                     &llama_family(), &qwen2_family()};
    return all;
}

const Family& family_of(std::string_view architecture) {
    std::vector<std::string_view> names;
    for (const Family* family : families()) {
        if (family->architecture() == architecture) {
            return *family;
        }
        names.push_back(family->architecture());
    }
    throw Error(ErrorCode::bad_input,
                fmt::format("architecture \"{}\": the native engine runs {}; --engine llama may run it",
                            architecture, fmt::join(names, ", ")));
}

Model load_model(const Family& family, const format::KeyValues& key_values, Weights& weights) {
    Model model;
    model.family = &family;
    HyperParameters& shape = model.shape;
    shape = HyperParameters::read(key_values);
    family.describe(shape, key_values);

    const std::string embedding = "token_embd.weight";
    model.vocabulary = static_cast<uint32_t>(weights.rows_of(embedding).value_or(0));
    model.embedding = weights.matrix(embedding, model.vocabulary, shape.width, true);
    model.final_norm = weights.vector("output_norm.weight", shape.width);
    if (family.may_have_head()) {
        model.head = weights.find_matrix("output.weight", model.vocabulary, shape.width);
    }
    if (model.head == nullptr) {
        model.head = model.embedding;
    }
    model.head_bias = weights.find_vector("output.bias", model.vocabulary);
    for (uint32_t i = 0; i < shape.layers; ++i) {
        const std::string prefix = fmt::format("blk.{}.", i);
        Layer& layer = model.layers.emplace_back();
        layer.attention_norm = weights.vector(prefix + "attn_norm.weight", shape.width);
        layer.query = weights.matrix(prefix + "attn_q.weight", shape.query_width(), shape.width);
        layer.key = weights.matrix(prefix + "attn_k.weight", shape.kv_width(), shape.width);
        layer.value = weights.matrix(prefix + "attn_v.weight", shape.kv_width(), shape.width);
        layer.output = weights.matrix(prefix + "attn_output.weight", shape.width, shape.query_width());
        layer.ffn_norm = weights.vector(prefix + "ffn_norm.weight", shape.width);
        layer.gate = weights.matrix(prefix + "ffn_gate.weight", shape.ffn_width, shape.width);
        layer.up = weights.matrix(prefix + "ffn_up.weight", shape.ffn_width, shape.width);
        layer.down = weights.matrix(prefix + "ffn_down.weight", shape.width, shape.ffn_width);
        family.load_layer(layer, prefix, shape, weights);
    }
    weights.require_all_used();
    return model;
}

}  // namespace kaiju::runtime
