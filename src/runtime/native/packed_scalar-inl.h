// What the scalar kernels of all our wires share.
#pragma once

#include "runtime/native/packed_portable-inl.h"

namespace kaiju::runtime::packed {
namespace {

/// The 24 x 16 integers of a block that `decode` gives as f32, column by column, exact in 8 bits.
template <typename Decode>
void decode_to_bytes(Decode decode, int8_t* out) {
    float values[kCols * kRows];
    decode(values);
    for (size_t i = 0; i < kCols * kRows; ++i) {
        out[i] = static_cast<int8_t>(values[i]);
    }
}

/// acc[r] = fma(scale Σ_c weights[c][r] a[c], factor[r], acc[r]) for each token; the sum is exact.
template <typename Input, typename Position>
void accumulate_integers(const int8_t* weights, const float* factor, const Input* x, size_t tokens,
                         Position position, float* acc) {
    for (size_t t = 0; t < tokens; ++t) {
        int32_t sum[kRows] = {};
        for (size_t column = 0; column < kCols; ++column) {
            const auto a = x[t].a[position(column)];
            for (size_t row = 0; row < kRows; ++row) {
                sum[row] += weights[column * kRows + row] * a;
            }
        }
        for (size_t row = 0; row < kRows; ++row) {
            float& total = acc[kRows * t + row];
            total = std::fma(static_cast<float>(sum[row]) * x[t].scale, factor[row], total);
        }
    }
}

}  // namespace
}  // namespace kaiju::runtime::packed
