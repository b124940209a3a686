// What every instruction set's file compiles for itself, in plain C++. All of it has internal linkage: the
// linker must not take one file's copy, with its instructions, for all.
#pragma once

#include <cmath>
#include <cstring>

#include "runtime/native/packed_kernels.h"

namespace kaiju::runtime::packed {
namespace {

/// Rounds to the nearest integer, half to even, for |x| < 2^22: the sum has no room for a fraction.
inline float round_to_integer(float x) {
    constexpr float kMagic = 12582912.0F;  // 1.5 * 2^23
    return x + kMagic - kMagic;
}

/// How 24 values are rounded to integers of at most `limit`: x * inverse, then integer * scale.
struct Rounding {
    float inverse;
    float scale;
};

inline Rounding rounding_of(const float* x, float limit) {
    // Sizes as integers: they have the order of the numbers, what is not finite comes last, and their largest
    // is found in any order, so in vectors.
    int32_t largest_bits = 0;
    for (size_t i = 0; i < kCols; ++i) {
        int32_t bits = 0;
        std::memcpy(&bits, x + i, sizeof(bits));
        bits &= 0x7FFFFFFF;
        largest_bits = bits > largest_bits ? bits : largest_bits;
    }
    float largest = 0;
    std::memcpy(&largest, &largest_bits, sizeof(largest));
    const float inverse = largest > 0 ? limit / largest : 0.0F;
    // The reciprocal of a very small number overflows: such a block is zero.
    const bool usable = largest - largest == 0 && inverse - inverse == 0;
    return usable ? Rounding{inverse, largest / limit} : Rounding{0, largest - largest};
}

/// Rounds x to integers; what is not finite, and what is too small for a reciprocal, becomes zeros. Answers
/// their sum.
template <typename Integer>
inline int32_t round_values(const float* x, const Rounding& rounding, Integer* out) {
    int32_t total = 0;
    for (size_t i = 0; i < kCols; ++i) {
        const float value = rounding.inverse == 0 ? 0.0F : x[i];
        const auto rounded = static_cast<int32_t>(round_to_integer(value * rounding.inverse));
        out[i] = static_cast<Integer>(rounded);
        total += rounded;
    }
    return total;
}

/// Rounds 24 values to 8 bits. Where one is not finite the scale is NaN.
inline void quantise(const float* x, const Offsets& offsets, Activation* out) {
    const Rounding rounding = rounding_of(x, 127);
    const int32_t total = round_values(x, rounding, out->a);
    out->scale = rounding.scale;
    out->offsets[0] = offsets.even * total;
    out->offsets[1] = offsets.odd * total;
}

/// acc[r] += factor[r] * Σ_c weights[c][r] x[c], for each token.
inline void accumulate(const float* weights, const float* factor, const float* x, size_t tokens, float* acc) {
    for (size_t t = 0; t < tokens; ++t) {
        float sum[kRows] = {};
        for (size_t column = 0; column < kCols; ++column) {
            const float value = x[kCols * t + column];
            for (size_t row = 0; row < kRows; ++row) {
                sum[row] += weights[column * kRows + row] * value;
            }
        }
        for (size_t row = 0; row < kRows; ++row) {
            acc[kRows * t + row] += factor[row] * sum[row];
        }
    }
}

}  // namespace
}  // namespace kaiju::runtime::packed
