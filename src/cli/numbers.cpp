#include "cli/numbers.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <functional>
#include <system_error>
#include <type_traits>

#include "base/error.h"

namespace {

template <typename T>
bool read_number(const std::string& input, T& output) {
    const char* const end = input.data() + input.size();
    T value{};
    const auto [stop, error] = std::from_chars(input.data(), end, value);
    if (error != std::errc() || stop != end) {
        return false;
    }
    if constexpr (std::is_floating_point_v<T>) {
        if (!std::isfinite(value)) {
            return false;
        }
    }
    const size_t first = input[0] == '-' ? 1 : 0;
    const bool padded =
        input[first] == '0' && input.size() > first + 1 && input[first + 1] >= '0' && input[first + 1] <= '9';
    if (padded) {
        return false;  // eight or ten? Whoever wrote it has to say
    }
    output = value;
    return true;
}

CLI::Validator number_check(const std::string& what, const std::string& description,
                            std::function<bool(double)> good) {
    return {[what, good = std::move(good)](std::string& input) {
                double value = 0;
                return read_number(input, value) && good(value) ? std::string()
                                                                : fmt::format("{} is not {}", input, what);
            },
            description};
}

}  // namespace

namespace CLI::detail {

template <>
bool lexical_cast(const std::string& input, int32_t& output) {
    return read_number(input, output);
}
template <>
bool lexical_cast(const std::string& input, int64_t& output) {
    return read_number(input, output);
}
template <>
bool lexical_cast(const std::string& input, uint32_t& output) {
    return read_number(input, output);
}
template <>
bool lexical_cast(const std::string& input, uint64_t& output) {
    return read_number(input, output);
}
template <>
bool lexical_cast(const std::string& input, float& output) {
    return read_number(input, output);
}
template <>
bool lexical_cast(const std::string& input, double& output) {
    return read_number(input, output);
}

}  // namespace CLI::detail

namespace kaiju::cli {

CLI::Validator between(double least, double most) {
    return number_check(fmt::format("a number from {} to {}", least, most),
                        fmt::format("{} to {}", least, most),
                        [least, most](double value) { return value >= least && value <= most; });
}

CLI::Validator positive() {
    return number_check("a number above 0", "above 0", [](double value) { return value > 0; });
}

CLI::Validator not_negative() {
    return number_check("a number from 0 up", "0 or more", [](double value) { return value >= 0; });
}

uint64_t parse_size(std::string_view option, const std::string& text) {
    constexpr std::string_view kUnits = "KMGT";
    double value = 0;
    const char* const last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data(), last, value);
    std::string unit(end, last);
    if (unit == "kB") {
        unit = "KB";
    }
    const size_t power = unit.empty() ? 0 : kUnits.find(unit.front()) + 1;
    const std::string_view rest = std::string_view(unit).substr(unit.empty() ? 0 : 1);
    const bool known = power <= kUnits.size() && (rest.empty() || rest == "iB" || rest == "B");
    const double bytes = value * std::pow(rest == "B" ? 1000.0 : 1024.0, static_cast<double>(power));
    constexpr double kMost = 1e18;
    if (error != std::errc() || !known || !(bytes >= 1) || bytes > kMost) {
        throw Error(
            ErrorCode::usage,
            fmt::format("{} {}: a number of bytes, or with a unit behind it: K, M, G, T or MiB for powers of "
                        "1024, kB, MB, GB, TB for powers of 1000",
                        option, text));
    }
    return static_cast<uint64_t>(bytes);
}

}  // namespace kaiju::cli
