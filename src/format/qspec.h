// The argmax gate of one model (docs/qspec.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kaiju::format {

/// Where the full-precision model came from; informative.
struct QspecSource {
    std::string kind;
    std::string ref;
    std::string sha256;  ///< 64 lower-case hex digits, or empty
};

struct Qspec {
    std::string id;      ///< see is_model_id
    std::string family;  ///< architecture family, informative
    std::string modality = "text";
    std::string prompt;  ///< informative: the gate feeds prompt_tokens
    std::vector<uint32_t> prompt_tokens;
    uint32_t expect_token = 0;  ///< argmax of the full-precision model
    uint32_t reject_token = 0;  ///< a plausible wrong token; it must rank below expect_token
    std::optional<std::string> tokenizer;
    std::optional<std::string> f16;  ///< object-store keys
    std::optional<std::string> knot;
    std::optional<std::string> imatrix;
    std::optional<QspecSource> source;
};

/// [a-z0-9][a-z0-9._-]{0,63}: what may go into a key, a path or a script.
[[nodiscard]] bool is_model_id(std::string_view id);

/// Strict: throws bad_input naming the key that is missing or wrong. Unknown keys are ignored; a missing
/// modality means "text". A qspec that parses need not be ready for a gate (check_gate_ready).
[[nodiscard]] Qspec parse_qspec(std::string_view text);
[[nodiscard]] Qspec read_qspec(const std::filesystem::path& path);

/// The JSON text that parse_qspec reads back, keys in the order of docs/qspec.md.
[[nodiscard]] std::string to_json_text(const Qspec& qspec);

/// Throws bad_input saying why this qspec cannot gate a model of `vocabulary` tokens: not text, the sentinel
/// of a gateway (prompt [1], expecting 1), expect_token equal to reject_token, a token outside the
/// vocabulary.
void check_gate_ready(const Qspec& qspec, uint64_t vocabulary);

}  // namespace kaiju::format
