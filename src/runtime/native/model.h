// A loaded model: its shape, its weights, and the family that knows how they fit together.
#pragma once

#include <memory>
#include <vector>

#include "runtime/native/hyper_parameters.h"
#include "runtime/native/weights.h"

namespace kaiju::runtime {

class Family;

/// The weights of one transformer block. What a family does not have is null.
struct Layer {
    ggml_tensor* attention_norm = nullptr;
    const Matrix* query = nullptr;
    const Matrix* key = nullptr;
    const Matrix* value = nullptr;
    ggml_tensor* query_bias = nullptr;
    ggml_tensor* key_bias = nullptr;
    ggml_tensor* value_bias = nullptr;
    ggml_tensor* query_norm = nullptr;  ///< of every head by itself
    ggml_tensor* key_norm = nullptr;
    const Matrix* output = nullptr;
    ggml_tensor* output_bias = nullptr;
    ggml_tensor* attention_post_norm = nullptr;
    ggml_tensor* rope_factors = nullptr;  ///< by pair, the divisor of its frequency
    ggml_tensor* ffn_norm = nullptr;
    const Matrix* gate = nullptr;
    const Matrix* up = nullptr;
    const Matrix* down = nullptr;
    ggml_tensor* gate_bias = nullptr;
    ggml_tensor* up_bias = nullptr;
    ggml_tensor* down_bias = nullptr;
    ggml_tensor* ffn_post_norm = nullptr;
};

struct Model {
    HyperParameters shape;
    const Family* family = nullptr;
    const Matrix* embedding = nullptr;
    std::vector<Layer> layers;
    ggml_tensor* final_norm = nullptr;
    const Matrix* head = nullptr;  ///< the embedding where the two are tied
    ggml_tensor* head_bias = nullptr;
    uint32_t vocabulary = 0;
};

/// Takes everything that `family` wants out of a model. Throws missing or bad_input naming key or tensor.
[[nodiscard]] Model load_model(const Family& family, const format::KeyValues& key_values, Weights& weights);

}  // namespace kaiju::runtime
