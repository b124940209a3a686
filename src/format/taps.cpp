#include "format/taps.h"

#include <algorithm>
#include <utility>

namespace kaiju::format {

std::optional<std::string> tap_of(std::string_view weight) {
    constexpr std::string_view kPrefix = "blk.";
    constexpr std::string_view kSuffix = ".weight";
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
    if (!weight.starts_with(kPrefix) || !weight.ends_with(kSuffix)) {
        return std::nullopt;
    }
    const size_t dot = weight.find_first_not_of("0123456789", kPrefix.size());
    if (dot == kPrefix.size() || weight[dot] != '.' || dot + 1 + kSuffix.size() > weight.size()) {
        return std::nullopt;
    }
    const std::string_view role = weight.substr(dot + 1, weight.size() - dot - 1 - kSuffix.size());
    const auto* const found =
        std::find_if(kRoles.begin(), kRoles.end(), [&](const auto& known) { return known.first == role; });
    if (found == kRoles.end()) {
        return std::nullopt;
    }
    return std::string(weight.substr(0, dot + 1)) + std::string(found->second);
}

}  // namespace kaiju::format
