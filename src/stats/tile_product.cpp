#include "stats/tile_product.h"

#include "lattice/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "stats/tile_product.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace kaiju::stats::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::CappedTag<float, kPanel / 2>;
using V = hn::Vec<D>;

/// Four rows of a tile by two vectors: eight sums are what keeps two multiply-add units busy at a latency of
/// four, and six loads a step stay below what they take.
HWY_INLINE void strip(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b, size_t rows,
                      double* HWY_RESTRICT out) {
    const D d;
    const size_t lanes = hn::Lanes(d);
    V s00 = hn::Zero(d), s01 = s00, s10 = s00, s11 = s00, s20 = s00, s21 = s00, s30 = s00, s31 = s00;
    for (size_t r = 0; r < rows; ++r) {
        const V b0 = hn::LoadU(d, b);
        const V b1 = hn::LoadU(d, b + lanes);
        const V a0 = hn::Set(d, a[0]);
        s00 = hn::MulAdd(a0, b0, s00);
        s01 = hn::MulAdd(a0, b1, s01);
        const V a1 = hn::Set(d, a[1]);
        s10 = hn::MulAdd(a1, b0, s10);
        s11 = hn::MulAdd(a1, b1, s11);
        const V a2 = hn::Set(d, a[2]);
        s20 = hn::MulAdd(a2, b0, s20);
        s21 = hn::MulAdd(a2, b1, s21);
        const V a3 = hn::Set(d, a[3]);
        s30 = hn::MulAdd(a3, b0, s30);
        s31 = hn::MulAdd(a3, b1, s31);
        a += kPanel;
        b += kPanel;
    }
    HWY_ALIGN std::array<float, kPanel> sums;
    const auto add = [&](size_t row, V low, V high) HWY_ATTR {
        hn::StoreU(low, d, sums.data());
        hn::StoreU(high, d, sums.data() + lanes);
        for (size_t j = 0; j < 2 * lanes; ++j) {
            out[row * kPanel + j] += static_cast<double>(sums[j]);
        }
    };
    add(0, s00, s01);
    add(1, s10, s11);
    add(2, s20, s21);
    add(3, s30, s31);
}

}  // namespace

void tile_product(const float* a, const float* b, size_t rows, double* tile) {
    const size_t step = 2 * hn::Lanes(D());
    for (size_t first = 0; first < rows; first += kChunk) {
        const size_t count = std::min(kChunk, rows - first);
        for (size_t j = 0; j < kPanel; j += step) {
            for (size_t i = 0; i < kPanel; i += 4) {
                strip(a + first * kPanel + i, b + first * kPanel + j, count, tile + i * kPanel + j);
            }
        }
    }
}

}  // namespace kaiju::stats::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace kaiju::stats {

HWY_EXPORT(tile_product);

void tile_product(const float* a, const float* b, size_t rows, Tile& tile) {
    HWY_DYNAMIC_DISPATCH(tile_product)(a, b, rows, tile.data());
}

}  // namespace kaiju::stats

#endif  // HWY_ONCE
