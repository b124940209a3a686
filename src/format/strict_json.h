// JSON from files that nobody vouches for.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace kaiju::format {

/// Parses a whole text. Throws bad_input (with the position) where it is not JSON, where an object has a key
/// twice (readers would differ on which one counts) or where it nests deeper than 64.
[[nodiscard]] nlohmann::json parse_strict_json(std::string_view text);

/// Members of a JSON object by type. find_x gives nothing where the key is not there (or null); all throw
/// bad_input, naming the key, where it has another type; get_x throws bad_input where it is not there.
[[nodiscard]] std::optional<std::string> find_text(const nlohmann::json& object, std::string_view key);
[[nodiscard]] std::string get_text(const nlohmann::json& object, std::string_view key);
/// A non-negative integer written as one (no fraction, no exponent).
[[nodiscard]] uint64_t get_unsigned(const nlohmann::json& object, std::string_view key);
/// The same for a value that has no key; `what` names it.
[[nodiscard]] uint64_t as_unsigned(const nlohmann::json& value, std::string_view what);

}  // namespace kaiju::format
