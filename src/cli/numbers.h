// CLI11, with numbers read strictly. Include this instead of <CLI/CLI.hpp>.
#pragma once

#include <CLI/TypeTools.hpp>
#include <cstdint>
#include <string>

// CLI11 reads numbers with strtoull and strtold: "-1" wraps around, "010" is eight, "nan" passes every range.
// Specialising lexical_cast is its own way to read a type otherwise; here, before its checks use it, it holds
// for every option there is and will be. A function to add numeric options with would have to be remembered.
namespace CLI::detail {

// Whole numbers are decimal digits, after "-" where the type has a sign; fractions are finite decimals.
template <>
bool lexical_cast(const std::string& input, int32_t& output);
template <>
bool lexical_cast(const std::string& input, int64_t& output);
template <>
bool lexical_cast(const std::string& input, uint32_t& output);
template <>
bool lexical_cast(const std::string& input, uint64_t& output);
template <>
bool lexical_cast(const std::string& input, float& output);
template <>
bool lexical_cast(const std::string& input, double& output);

}  // namespace CLI::detail

#include <CLI/CLI.hpp>

namespace kaiju::cli {

// What a number may be, for Option::check. CLI11's own checks print bounds with up to 309 digits.
[[nodiscard]] CLI::Validator between(double least, double most);
[[nodiscard]] CLI::Validator positive();
[[nodiscard]] CLI::Validator not_negative();

/// Bytes: a number, and K, M, G, T or KiB, MiB, GiB, TiB behind it for powers of 1024, kB (KB), MB, GB, TB
/// for powers of 1000. Throws usage naming the option.
[[nodiscard]] uint64_t parse_size(std::string_view option, const std::string& text);

}  // namespace kaiju::cli
