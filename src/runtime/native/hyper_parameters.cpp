#include "runtime/native/hyper_parameters.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"

namespace kaiju::runtime {

namespace {

constexpr uint32_t kMaxLayers = 1024;
constexpr uint32_t kMaxWidth = 1 << 20;
constexpr uint32_t kMaxHeads = 4096;
constexpr uint32_t kMaxHeadSize = 4096;

/// Bounds that keep products of shapes far from overflow; real models are far below.
void check_range(const std::string& key, uint32_t value, uint32_t largest) {
    if (value == 0 || value > largest) {
        throw Error(ErrorCode::bad_input, fmt::format("{} = {}: not in 1..{}", key, value, largest));
    }
}

float finite_positive(const std::string& key, float value) {
    if (!(value > 0) || !std::isfinite(value)) {
        throw Error(ErrorCode::bad_input, fmt::format("{} = {}: must be positive", key, value));
    }
    return value;
}

float magnitude_of(float factor) {
    return factor <= 1 ? 1.0F : 0.1F * std::log(factor) + 1.0F;
}

// The same rules as llama.cpp's, whose files these keys are.
Rope read_rope(const format::KeyValues& key_values, uint32_t context) {
    const auto key = [&](const char* suffix) { return key_values.arch_key(suffix); };
    Rope rope;
    rope.base = finite_positive(key("rope.freq_base"),
                                key_values.find_f32(key("rope.freq_base")).value_or(rope.base));
    rope.original_context =
        key_values.find_u32(key("rope.scaling.original_context_length")).value_or(context);
    const std::string type = key_values.find_string(key("rope.scaling.type")).value_or("linear");
    if (type != "none" && type != "linear" && type != "yarn") {
        throw Error(ErrorCode::bad_input, fmt::format("{} = \"{}\": this runtime knows none, linear and yarn",
                                                      key("rope.scaling.type"), type));
    }
    auto factor = key_values.find_f32(key("rope.scaling.factor"));
    if (!factor) {
        factor = key_values.find_f32(key("rope.scale_linear"));
    }
    if (factor && *factor != 0 && type != "none") {
        rope.scale = 1 / finite_positive(key("rope.scaling.factor"), *factor);
    }
    if (type == "yarn") {
        // ggml multiplies by the magnitude of the scale itself, so that is taken off again.
        const float scale = 1 / rope.scale;
        rope.yarn_mix = 1;
        rope.magnitude = magnitude_of(scale) / (1 + 0.1F * std::log(scale));
    }
    rope.magnitude *= key_values.find_f32(key("rope.scaling.attn_factor")).value_or(1);
    return rope;
}

}  // namespace

HyperParameters HyperParameters::read(const format::KeyValues& key_values) {
    const auto key = [&](const char* suffix) { return key_values.arch_key(suffix); };
    HyperParameters shape;
    shape.architecture = key_values.architecture();
    const auto required = [&](const char* suffix, uint32_t largest) {
        const uint32_t value = key_values.get_u32(key(suffix));
        check_range(key(suffix), value, largest);
        return value;
    };
    if (key_values.find_u32(key("expert_count")).value_or(0) > 0) {
        throw Error(
            ErrorCode::bad_input,
            fmt::format("{}: a mixture of experts, which this runtime does not run", shape.architecture));
    }
    shape.layers = required("block_count", kMaxLayers);
    shape.width = required("embedding_length", kMaxWidth);
    shape.ffn_width = required("feed_forward_length", kMaxWidth);
    shape.heads = required("attention.head_count", kMaxHeads);
    shape.kv_heads = key_values.find_u32(key("attention.head_count_kv")).value_or(shape.heads);
    check_range(key("attention.head_count_kv"), shape.kv_heads, shape.heads);
    shape.head_size = key_values.find_u32(key("attention.key_length")).value_or(shape.width / shape.heads);
    check_range(key("attention.key_length"), shape.head_size, kMaxHeadSize);
    const uint32_t value_size =
        key_values.find_u32(key("attention.value_length")).value_or(shape.width / shape.heads);
    shape.rope_size = key_values.find_u32(key("rope.dimension_count")).value_or(shape.head_size);
    shape.context = required("context_length", 1 << 30);
    shape.norm_epsilon = finite_positive(key("attention.layer_norm_rms_epsilon"),
                                         key_values.get_f32(key("attention.layer_norm_rms_epsilon")));
    if (shape.heads % shape.kv_heads != 0 || value_size != shape.head_size || shape.rope_size == 0 ||
        shape.rope_size > shape.head_size || shape.rope_size % 2 != 0) {
        throw Error(
            ErrorCode::bad_input,
            fmt::format("{} query heads, {} key heads, sizes {} (keys), {} (values), {} (rotated): this "
                        "runtime wants groups of equal size, keys as long as values and an even rotation",
                        shape.heads, shape.kv_heads, shape.head_size, value_size, shape.rope_size));
    }
    shape.rope = read_rope(key_values, shape.context);
    shape.attention_scale = 1 / std::sqrt(static_cast<float>(shape.head_size));
    return shape;
}

void HyperParameters::read_window(const format::KeyValues& key_values, uint32_t period) {
    const std::string key = key_values.arch_key("attention.sliding_window_pattern");
    local.assign(layers, false);
    if (key_values.array_size(key)) {
        const auto flags = key_values.find_bools(key);
        if (!flags || flags->size() < layers) {
            throw Error(ErrorCode::bad_input,
                        fmt::format("{}: not a flag for each of {} layers", key, layers));
        }
        local.assign(flags->begin(), flags->begin() + layers);
        return;
    }
    period = key_values.find_u32(key).value_or(period);
    for (uint32_t layer = 0; layer < layers; ++layer) {
        local[layer] = period == 0 || layer % period < period - 1;
    }
}

}  // namespace kaiju::runtime
