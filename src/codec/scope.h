// Which models can be encoded.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "format/key_values.h"
#include "format/model_file.h"

namespace kaiju::codec {

/// Why a model is outside what the encoders are for, in a sentence that starts with its architecture; nothing
/// for a dense text model. State-space and hybrid models, mixtures of experts, image and speech models are
/// out: their importance entries do not belong to one matrix each, or their weights are not matrix products
/// of a dense decoder. Judged by hyper-parameters and tensor names first, so that architectures not yet known
/// fall on the right side.
[[nodiscard]] std::optional<std::string> out_of_scope(const format::KeyValues& key_values,
                                                      std::span<const format::TensorInfo> tensors);

/// True for blk.N.{attn_q, attn_k, attn_output, ffn_gate, ffn_up, ffn_down}.weight: the matrices that are
/// encoded unless the user says otherwise.
[[nodiscard]] bool is_linear_weight(std::string_view name);

}  // namespace kaiju::codec
