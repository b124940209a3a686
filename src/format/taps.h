// Taps: the places of a model where activations enter matrices, as sketches and covariances name them.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace kaiju::format {

/// The taps of a layer, in the order of the graph: the input of q, k and v; of the attention's output matrix;
/// of gate and up; of down. A tap's full name is "blk.N." and one of these.
inline constexpr std::array<std::string_view, 4> kTaps = {"attn_in", "attn_out_in", "ffn_in", "ffn_down_in"};

/// "blk.0.attn_in" for "blk.0.attn_q.weight": the tap whose activations a weight matrix is multiplied with.
/// Nothing for tensors that are no matrix of a layer's attention or feed-forward network.
[[nodiscard]] std::optional<std::string> tap_of(std::string_view weight);

}  // namespace kaiju::format
