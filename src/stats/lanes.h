// Small dense linear algebra on 16 vectors at a time, one per lane: what the error feedback does for 16 rows
// of a matrix that share one covariance.
#pragma once

#include <cstddef>

#include "lattice/simd.h"

namespace kaiju::stats {

/// Vectors that are worked on together. Their component i lies in 16 floats in a row.
inline constexpr size_t kLanes = 16;

/// The kernels of one instruction set. Every lane does the same IEEE operations in the same order on every
/// instruction set (multiplications and additions apart, never fused), so all give the same bits.
struct LaneKernels {
    lattice::Simd simd;  ///< what they were compiled for

    /// out += A x. a: m x n, its rows `stride` values apart; x: n x 16; out: m x 16. Sums run over ascending
    /// columns.
    void (*multiply_add)(const float* a, size_t stride, size_t m, size_t n, const float* x, float* out);

    /// out[lane] = Σ_i x_i y_i. x, y: n x 16; out: 16.
    void (*dot)(const float* x, const float* y, size_t n, float* out);
};

/// On the instruction set that lattice::chosen_simd() names, or on a given one.
[[nodiscard]] const LaneKernels& lane_kernels();
[[nodiscard]] const LaneKernels& lane_kernels(lattice::Simd simd);

}  // namespace kaiju::stats
