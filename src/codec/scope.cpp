#include "codec/scope.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "format/stock_types.h"

namespace kaiju::codec {

namespace {

struct Sign {
    std::string_view in_name;  ///< part of a tensor's name that only such models have
    std::string_view kind;
};

constexpr std::array kSigns = {
    Sign{".ssm_", "a state-space or hybrid model"},
    Sign{".time_mix_", "a state-space (RWKV) model"},
    Sign{".shortconv.", "a hybrid model with convolution layers"},
    Sign{"_exps.", "a mixture of experts"},
    Sign{"v.patch_embd", "an image model"},
    Sign{"a.conv1d", "a speech model"},
    Sign{"mm.", "a projector of an image model"},
};

struct Architecture {
    std::string_view name;
    std::string_view kind;
};

// Those that neither a key nor a tensor name gives away.
constexpr std::array kArchitectures = {
    Architecture{"clip", "an image model"},       Architecture{"flux", "an image model"},
    Architecture{"sd1", "an image model"},        Architecture{"sd3", "an image model"},
    Architecture{"sdxl", "an image model"},       Architecture{"wavtokenizer-dec", "a speech model"},
    Architecture{"mamba", "a state-space model"}, Architecture{"mamba2", "a state-space model"},
    Architecture{"rwkv6", "a state-space model"}, Architecture{"rwkv7", "a state-space model"},
    Architecture{"minimax-01", "a hybrid model"}, Architecture{"kimi-linear", "a hybrid model"},
    Architecture{"qwen3next", "a hybrid model"},
};

}  // namespace

std::optional<std::string> out_of_scope(const format::KeyValues& key_values,
                                        std::span<const format::TensorInfo> tensors) {
    const std::string architecture =
        format::printable(key_values.find_string("general.architecture").value_or("unnamed"));
    const auto because = [&](std::string_view kind, std::string_view evidence) {
        return fmt::format("architecture \"{}\" is {} ({}): only dense text models can be encoded",
                           architecture, kind, evidence);
    };
    for (const auto& known : kArchitectures) {
        if (architecture == known.name) {
            return because(known.kind, "by its name");
        }
    }
    if (const auto experts = key_values.find_u32(architecture + ".expert_count").value_or(0); experts > 0) {
        return because("a mixture of experts", fmt::format("{}.expert_count = {}", architecture, experts));
    }
    for (const auto& tensor : tensors) {
        for (const auto& sign : kSigns) {
            const size_t at = tensor.name.find(sign.in_name);
            // A sign that starts with a letter must start the name or a part of it ("mm." is not in
            // "norm.weight").
            if (at != std::string::npos && (sign.in_name[0] == '.' || sign.in_name[0] == '_' || at == 0)) {
                return because(sign.kind, fmt::format("it has a tensor {}", tensor.name));
            }
        }
    }
    return std::nullopt;
}

bool is_linear_weight(std::string_view name) {
    constexpr std::array<std::string_view, 6> kRoles = {"attn_q",   "attn_k", "attn_output",
                                                        "ffn_gate", "ffn_up", "ffn_down"};
    constexpr std::string_view kPrefix = "blk.";
    constexpr std::string_view kSuffix = ".weight";
    if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) {
        return false;
    }
    name.remove_prefix(kPrefix.size());
    const size_t digits = std::min(name.find_first_not_of("0123456789"), name.size());
    if (digits == 0 || digits == name.size() || name[digits] != '.') {
        return false;
    }
    name = name.substr(digits + 1, name.size() - digits - 1 - kSuffix.size());
    return std::find(kRoles.begin(), kRoles.end(), name) != kRoles.end();
}

}  // namespace kaiju::codec
