// What the AVX-512 kernels of all our wires share: a 512-bit vector holds four columns of a whole group of
// rows, and one instruction sums four products of bytes.
#pragma once

#include <immintrin.h>

#include "runtime/native/packed_portable-inl.h"

namespace kaiju::runtime::packed {
namespace {

inline __m512i broadcast_quad(const int8_t* a) {
    int32_t quad = 0;
    std::memcpy(&quad, a, sizeof(quad));
    return _mm512_set1_epi32(quad);
}

/// sum * scale * factor + acc, in the order that all instruction sets keep.
inline __m512 add_product(__m512i sum, __m512 scale, __m512 factor, __m512 acc) {
    return _mm512_fmadd_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(sum), scale), factor, acc);
}

/// Of a group's lanes those that are rows of the matrix.
inline __mmask16 rows_of(size_t rows, size_t group) {
    const size_t left = rows - kRows * group;
    return static_cast<__mmask16>((1U << (left < kRows ? left : kRows)) - 1);
}

}  // namespace
}  // namespace kaiju::runtime::packed
