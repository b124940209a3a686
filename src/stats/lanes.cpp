// A register tile of the product: some rows by 16 lanes, in at most 12 accumulators, so that with a vector of
// x and a broadcast the 16 registers of AVX2 do.
#include "stats/lanes.h"

#include "lattice/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "stats/lanes.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace kaiju::stats::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<float, kLanes>;
using V = hn::Vec<D>;

constexpr lattice::Simd kThis = HWY_TARGET == HWY_AVX3   ? lattice::Simd::avx512
                                : HWY_TARGET == HWY_AVX2 ? lattice::Simd::avx2
                                : HWY_TARGET == HWY_SSE4 ? lattice::Simd::sse4
                                                         : lattice::Simd::scalar;
constexpr size_t kVectors = kLanes / hn::MaxLanes(D());
constexpr size_t kTile = kVectors >= 12 ? 1 : 12 / kVectors;

/// Columns that all rows go through before the next: their part of x (24 KB) stays in the first-level cache.
constexpr size_t kColumns = 384;

template <size_t kRows>
HWY_INLINE void tile(const float* HWY_RESTRICT a, size_t stride, size_t n, const float* HWY_RESTRICT x,
                     float* HWY_RESTRICT out) {
    const D d;
    constexpr size_t kLanesOfVector = hn::MaxLanes(D());
    V sum[kRows][kVectors];
    for (size_t r = 0; r < kRows; ++r) {
        for (size_t v = 0; v < kVectors; ++v) {
            sum[r][v] = hn::LoadU(d, out + r * kLanes + v * kLanesOfVector);
        }
    }
    for (size_t j = 0; j < n; ++j) {
        V in[kVectors];
        for (size_t v = 0; v < kVectors; ++v) {
            in[v] = hn::LoadU(d, x + j * kLanes + v * kLanesOfVector);
        }
        for (size_t r = 0; r < kRows; ++r) {
            const V factor = hn::Set(d, a[r * stride + j]);
            for (size_t v = 0; v < kVectors; ++v) {
                sum[r][v] = hn::Add(sum[r][v], hn::Mul(factor, in[v]));
            }
        }
    }
    for (size_t r = 0; r < kRows; ++r) {
        for (size_t v = 0; v < kVectors; ++v) {
            hn::StoreU(sum[r][v], d, out + r * kLanes + v * kLanesOfVector);
        }
    }
}

HWY_ATTR void multiply_add(const float* a, size_t stride, size_t m, size_t n, const float* x, float* out) {
    for (size_t first = 0; first < n; first += kColumns) {
        const size_t count = first + kColumns <= n ? kColumns : n - first;
        const float* const in = x + first * kLanes;
        size_t r = 0;
        for (; r + kTile <= m; r += kTile) {
            tile<kTile>(a + r * stride + first, stride, count, in, out + r * kLanes);
        }
        for (; r < m; ++r) {
            tile<1>(a + r * stride + first, stride, count, in, out + r * kLanes);
        }
    }
}

HWY_ATTR void dot(const float* x, const float* y, size_t n, float* out) {
    const D d;
    for (size_t lane = 0; lane < kLanes; lane += hn::MaxLanes(D())) {
        V sum = hn::Zero(d);
        for (size_t i = 0; i < n; ++i) {
            sum = hn::Add(sum,
                          hn::Mul(hn::LoadU(d, x + i * kLanes + lane), hn::LoadU(d, y + i * kLanes + lane)));
        }
        hn::StoreU(sum, d, out + lane);
    }
}

}  // namespace

const LaneKernels& kernels() {
    static const LaneKernels table = {kThis, &multiply_add, &dot};
    return table;
}

}  // namespace kaiju::stats::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "lattice/simd_select.h"

namespace kaiju::stats {

const LaneKernels& lane_kernels(lattice::Simd simd) {
    // NOLINTNEXTLINE(bugprone-branch-clone): where scalar is all that was compiled
    KAIJU_RETURN_FOR(simd, kernels)
}

const LaneKernels& lane_kernels() {
    return lane_kernels(lattice::chosen_simd());
}

}  // namespace kaiju::stats

#endif  // HWY_ONCE
