// Taps: the places of a model where activations enter matrices, as sketches and covariances name them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "format/tensor_info.h"

namespace kaiju::format {

/// The taps of a layer, in the order of the graph: the input of q, k and v; of the attention's output matrix;
/// of gate and up; of down. A tap's full name is "blk.N." and one of these.
inline constexpr std::array<std::string_view, 4> kTaps = {"attn_in", "attn_out_in", "ffn_in", "ffn_down_in"};

/// A matrix of a transformer block by its place: "blk.3.attn_q.weight" is layer 3, role attn_q.
struct Place {
    uint32_t layer = 0;
    std::string_view role;  ///< a part of the name
};

/// Nothing for a tensor that is no weight of a block.
[[nodiscard]] std::optional<Place> place_of(std::string_view tensor);

/// The input of the output head. Only captures that were asked for it have it.
inline constexpr std::string_view kHeadTap = "output_in";

inline constexpr std::string_view kHead = "output.weight";
inline constexpr std::string_view kEmbedding = "token_embd.weight";

/// True where a model has no head of its own: its embedding serves as one.
[[nodiscard]] bool is_tied(std::span<const TensorInfo> tensors);

/// "blk.0.attn_in" for "blk.0.attn_q.weight": the tap whose activations a weight matrix is multiplied with.
/// Nothing for tensors that are no matrix of a layer's attention or feed-forward network, nor the head (in a
/// `tied` model the embedding).
[[nodiscard]] std::optional<std::string> tap_of(std::string_view weight, bool tied = false);

}  // namespace kaiju::format
