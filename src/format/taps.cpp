#include "format/taps.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

namespace kaiju::format {

std::optional<Place> place_of(std::string_view tensor) {
    constexpr std::string_view kPrefix = "blk.";
    constexpr std::string_view kSuffix = ".weight";
    if (!tensor.starts_with(kPrefix) || !tensor.ends_with(kSuffix)) {
        return std::nullopt;
    }
    tensor.remove_prefix(kPrefix.size());
    Place place;
    const auto [end, error] = std::from_chars(tensor.data(), tensor.data() + tensor.size(), place.layer);
    const auto digits = static_cast<size_t>(end - tensor.data());
    if (error != std::errc{} || tensor[digits] != '.' || digits + 1 + kSuffix.size() >= tensor.size()) {
        return std::nullopt;
    }
    place.role = tensor.substr(digits + 1, tensor.size() - digits - 1 - kSuffix.size());
    return place;
}

bool is_tied(std::span<const TensorInfo> tensors) {
    return std::ranges::none_of(tensors, [](const TensorInfo& tensor) { return tensor.name == kHead; });
}

std::optional<std::string> tap_of(std::string_view weight, bool tied) {
    if (weight == (tied ? kEmbedding : kHead)) {
        return std::string(kHeadTap);
    }
    constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kRoles = {{
        {"attn_q", kTaps[0]},
        {"attn_k", kTaps[0]},
        {"attn_v", kTaps[0]},
        {"attn_qkv", kTaps[0]},  // one matrix for the three, in some families
        {"attn_output", kTaps[1]},
        {"ffn_gate", kTaps[2]},
        {"ffn_up", kTaps[2]},
        {"ffn_down", kTaps[3]},
    }};
    const auto place = place_of(weight);
    if (!place) {
        return std::nullopt;
    }
    const auto* const found = std::find_if(kRoles.begin(), kRoles.end(),
                                           [&](const auto& known) { return known.first == place->role; });
    if (found == kRoles.end()) {
        return std::nullopt;
    }
    return fmt::format("blk.{}.{}", place->layer, found->second);
}

}  // namespace kaiju::format
