// What the AVX2 kernels of all our wires share: a 256-bit vector holds four columns of eight rows.
#pragma once

#include <immintrin.h>

#include "runtime/native/packed_portable-inl.h"

namespace kaiju::runtime::packed {
namespace {

constexpr size_t kLanes = 8;  // rows in a vector: half a group

inline __m256i load(const uint8_t* at) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
}

/// Four activations in every row's lane: a load, no arithmetic, so they are loaded again rather than kept.
inline __m256i broadcast_quad(const int8_t* a) {
    int32_t quad = 0;
    std::memcpy(&quad, a, sizeof(quad));
    return _mm256_set1_epi32(quad);
}

/// sum * scale * factor + acc, in the order that all instruction sets keep.
inline __m256 add_product(__m256i sum, __m256 scale, __m256 factor, __m256 acc) {
    return _mm256_fmadd_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(sum), scale), factor, acc);
}

/// Stores the answers of half a group, those of them that are rows of the matrix.
inline void store_rows(size_t rows, size_t group, size_t half, __m256 result, float* y) {
    const size_t row = kRows * group + kLanes * half;
    if (row + kLanes <= rows) {
        _mm256_storeu_ps(y + row, result);
    } else if (row < rows) {
        float values[kLanes];
        _mm256_storeu_ps(values, result);
        std::memcpy(y + row, values, (rows - row) * sizeof(float));
    }
}

}  // namespace
}  // namespace kaiju::runtime::packed
