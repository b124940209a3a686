#include "lattice/e8.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>

#include "base/error.h"
#include "lattice/leech.h"

namespace kaiju::lattice {

namespace {

int64_t to_grid(float y, size_t point, size_t coordinate) {
    if (!(std::fabs(y) <= 0x1p20F)) {
        throw Error(ErrorCode::bad_input,
                    fmt::format("point {}, coordinate {}: {} is {}", point, coordinate, y,
                                std::isfinite(y) ? "outside [-2^20, 2^20]" : "not finite"));
    }
    return static_cast<int64_t>(std::nearbyint(double{y} * kGridUnit));
}

/// Nearest value offset + step k, the smaller of two equally near. `bits` = log2 of the step in grid steps.
int64_t nearest_multiple(int64_t v, int bits) {
    return (v + (int64_t{1} << (bits - 1)) - 1) >> bits;
}

/// The nearest point of 2 D8 + m (1, ..., 1): x = m + 2k, sum(x) divisible by 4.
int64_t nearest_in_half(const std::array<int64_t, kE8Dimension>& y, int32_t m,
                        std::array<int32_t, kE8Dimension>& x) {
    int64_t d2 = 0;
    int64_t largest = -1;
    size_t weakest = 0;
    int64_t weakest_r = 0;
    int64_t odd = 0;  // 8 m is a multiple of 4 already when halved twice: the parity of sum(k) decides
    for (size_t i = 0; i < kE8Dimension; ++i) {
        const int64_t v = y[i] - int64_t{m} * kGridUnit;
        const int64_t k = nearest_multiple(v, 17);
        const int64_t r = v - k * 2 * kGridUnit;
        if (std::abs(r) > largest) {
            largest = std::abs(r);
            weakest = i;
            weakest_r = r;
        }
        odd ^= k & 1;
        d2 += r * r;
        x[i] = static_cast<int32_t>(m + 2 * k);
    }
    if (odd != 0) {
        x[weakest] += weakest_r > 0 ? 2 : -2;
        d2 += 4 * int64_t{kGridUnit} * (kGridUnit - largest);
    }
    return d2;
}

}  // namespace

void nearest_e8(std::span<const float> y, std::span<NearestE8> out) {
    if (y.size() != out.size() * kE8Dimension) {
        throw Error(ErrorCode::usage,
                    fmt::format("{} values do not make {} points of 8", y.size(), out.size()));
    }
    for (size_t p = 0; p < out.size(); ++p) {
        std::array<int64_t, kE8Dimension> point;
        for (size_t i = 0; i < kE8Dimension; ++i) {
            point[i] = to_grid(y[p * kE8Dimension + i], p, i);
        }
        std::array<int32_t, kE8Dimension> odd;
        const int64_t even_d2 = nearest_in_half(point, 0, out[p].x);
        const int64_t odd_d2 = nearest_in_half(point, 1, odd);
        if (odd_d2 < even_d2) {
            out[p].x = odd;
        }
        out[p].d2 = static_cast<double>(std::min(even_d2, odd_d2)) * 0x1p-32;
    }
}

void nearest_z(std::span<const float> y, std::span<int32_t> out) {
    if (y.size() != out.size()) {
        throw Error(ErrorCode::usage, fmt::format("{} values do not make {} points", y.size(), out.size()));
    }
    for (size_t i = 0; i < out.size(); ++i) {
        out[i] = static_cast<int32_t>(nearest_multiple(to_grid(y[i], i, 0), 16));
    }
}

}  // namespace kaiju::lattice
