#include "lattice/decoder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "lattice/decoders.h"
#include "lattice/leech.h"

namespace kaiju::lattice {

namespace {

constexpr double kLimit = 0x1p20;
constexpr size_t kChunk = 256;
constexpr std::array<std::string_view, 3> kNames = {"fast", "pruned", "exhaustive"};

/// y = shift + residual / 2^16. Every step is exact: y / 8 and the product are scalings by powers of two, and
/// y - shift is a multiple of y's last place no larger than 4. Only the last rounding rounds, half to even;
/// the shift is even in grid steps, so it rounds as y itself would.
template <typename Real>
bool values_to_grid(std::span<const Real> y, int32_t* residual, int32_t* shift) {
    for (size_t i = 0; i < y.size(); ++i) {
        if (!(std::fabs(y[i]) <= Real{kLimit})) {  // also NaN
            return false;
        }
        const Real eights = std::nearbyint(y[i] * Real{0.125});
        shift[i] = 8 * static_cast<int32_t>(eights);
        residual[i] = static_cast<int32_t>(std::nearbyint((y[i] - Real{8} * eights) * Real{kGridUnit}));
    }
    return true;
}

template <typename Real>
[[noreturn]] void refuse(std::span<const Real> y, size_t first_point) {
    const auto bad = std::find_if(y.begin(), y.end(), [](Real v) { return !(std::fabs(v) <= Real{kLimit}); });
    const auto at = static_cast<size_t>(bad - y.begin());
    throw Error(
        ErrorCode::bad_input,
        fmt::format("point {}, coordinate {}: {} is {}", first_point + at / kDimension, at % kDimension, *bad,
                    std::isfinite(*bad) ? "outside [-2^20, 2^20]" : "not finite"));
}

}  // namespace

template <typename Real>
void Decoder::nearest_of(std::span<const Real> y, std::span<Nearest> out) const {
    if (y.size() != out.size() * kDimension) {
        throw Error(ErrorCode::usage,
                    fmt::format("{} values do not make {} points of 24", y.size(), out.size()));
    }
    std::array<int32_t, kChunk * kDimension> residual;
    std::array<int32_t, kChunk * kDimension> shift;
    for (size_t begin = 0; begin < out.size(); begin += kChunk) {
        const size_t points = std::min(kChunk, out.size() - begin);
        const size_t values = points * kDimension;
        const auto in = y.subspan(begin * kDimension, values);
        if (!to_grid(in, residual.data(), shift.data())) {
            refuse(in, begin);
        }
        search(residual.data(), shift.data(), out.subspan(begin, points));
    }
}

bool Decoder::to_grid(std::span<const float> y, int32_t* residual, int32_t* shift) const {
    return values_to_grid(y, residual, shift);
}

bool Decoder::to_grid(std::span<const double> y, int32_t* residual, int32_t* shift) const {
    return values_to_grid(y, residual, shift);
}

void Decoder::nearest(std::span<const float> y, std::span<Nearest> out) const {
    nearest_of(y, out);
}

void Decoder::nearest(std::span<const double> y, std::span<Nearest> out) const {
    nearest_of(y, out);
}

std::unique_ptr<Decoder> make_decoder(std::string_view name) {
    if (name == "fast") {
        return make_fast_decoder(chosen_simd());
    }
    if (name == "pruned") {
        return make_pruned_decoder();
    }
    if (name == "exhaustive") {
        return make_exhaustive_decoder();
    }
    throw Error(ErrorCode::usage,
                fmt::format("decoder '{}': choose one of {}", name, fmt::join(kNames, ", ")));
}

std::span<const std::string_view> decoder_names() {
    return kNames;
}

}  // namespace kaiju::lattice
