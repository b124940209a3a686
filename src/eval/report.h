// Figures as JSON, with the keys that other programs read, and as text.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "eval/bits.h"
#include "eval/perplexity.h"

namespace kaiju::eval {

/// "ppl", "ppl_error", "tokens", "chunks", and against a reference "mean_kl", "median_kl", "p99_kl",
/// "same_top", "ppl_ratio" (null without one), "mean_kl_error", "max_kl", "ppl_ratio_error", "reference_ppl",
/// "reference_ppl_error".
[[nodiscard]] nlohmann::json perplexity_json(const Perplexity& perplexity);

/// "linear_bits" (null where nothing is encoded) and "file_bits".
[[nodiscard]] nlohmann::json bits_json(const Bits& bits);

/// One figure a line, ended with a newline.
[[nodiscard]] std::string to_text(const Perplexity& perplexity);
[[nodiscard]] std::string to_text(const Bits& bits);

}  // namespace kaiju::eval
