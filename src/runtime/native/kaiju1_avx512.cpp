// KAIJU1 products with AVX-512 VNNI: a 512-bit vector holds four columns of a whole group of rows, and one
// instruction sums four products of bytes.
#include <immintrin.h>

#include "runtime/native/kaiju1_portable-inl.h"

namespace kaiju::runtime::kaiju1_kernels {

namespace {

inline __m512i broadcast_quad(const int8_t* a) {
    int32_t quad = 0;
    std::memcpy(&quad, a, sizeof(quad));
    return _mm512_set1_epi32(quad);
}

/// The low bits of w4 and w5 at bits 0 and 1 of every lane, other bits undefined.
inline __m512i low_bits(const uint8_t* at) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    const __m512i spread =
        _mm512_permutexvar_epi64(_mm512_set_epi64(1, 1, 1, 1, 0, 0, 0, 0), _mm512_castsi128_si512(bytes));
    return _mm512_srlv_epi64(spread, _mm512_set_epi64(6, 4, 2, 0, 6, 4, 2, 0));
}

/// The quads of w, 3 bits each.
inline void unpack_block(const uint8_t* block, __m512i* w) {
    const __m512i three_bits = _mm512_set1_epi8(7);
    const __m512i upper_bits = _mm512_set1_epi8(6);
    const __m512i one_bit = _mm512_set1_epi8(1);
    const __m512i x0 = _mm512_loadu_si512(block);
    const __m512i x1 = _mm512_loadu_si512(block + 64);
    const __m512i low = low_bits(block + 128);
    w[0] = _mm512_and_si512(x0, three_bits);
    w[1] = _mm512_and_si512(_mm512_srli_epi16(x0, 3), three_bits);
    w[2] = _mm512_and_si512(x1, three_bits);
    w[3] = _mm512_and_si512(_mm512_srli_epi16(x1, 3), three_bits);
    w[4] = _mm512_or_si512(_mm512_and_si512(_mm512_srli_epi16(x0, 5), upper_bits),
                           _mm512_and_si512(low, one_bit));
    w[5] = _mm512_or_si512(_mm512_and_si512(_mm512_srli_epi16(x1, 5), upper_bits),
                           _mm512_and_si512(_mm512_srli_epi16(low, 1), one_bit));
}

/// Σ w a, two chains of three.
inline __m512i sum_quads(const __m512i* w, const int8_t* a) {
    __m512i s0 = _mm512_dpbusd_epi32(_mm512_setzero_si512(), w[0], broadcast_quad(a));
    __m512i s1 = _mm512_dpbusd_epi32(_mm512_setzero_si512(), w[1], broadcast_quad(a + 4));
    s0 = _mm512_dpbusd_epi32(s0, w[2], broadcast_quad(a + 8));
    s1 = _mm512_dpbusd_epi32(s1, w[3], broadcast_quad(a + 12));
    s0 = _mm512_dpbusd_epi32(s0, w[4], broadcast_quad(a + 16));
    s1 = _mm512_dpbusd_epi32(s1, w[5], broadcast_quad(a + 20));
    return _mm512_add_epi32(s0, s1);
}

/// Σ h a over the side-band's 24 columns: those of 4j and 4j + 2 in `even`, those between them in `odd`.
inline __m512i sum_side_block(const __m512i* even, const __m512i* odd, const SideActivation* x) {
    __m512i even_sum = _mm512_setzero_si512();
    __m512i odd_sum = _mm512_setzero_si512();
    for (size_t j = 0; j < kQuads; ++j) {
        int32_t pairs[2];
        std::memcpy(pairs, x->a + 4 * j, sizeof(pairs));
        even_sum = _mm512_dpwssd_epi32(even_sum, even[j], _mm512_set1_epi32(pairs[0]));
        odd_sum = _mm512_dpwssd_epi32(odd_sum, odd[j], _mm512_set1_epi32(pairs[1]));
    }
    return _mm512_add_epi32(even_sum, odd_sum);
}

/// sum * scale * factor + acc, in the order that all instruction sets keep.
inline __m512 add_product(__m512i sum, __m512 scale, __m512 factor, __m512 acc) {
    return _mm512_fmadd_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(sum), scale), factor, acc);
}

/// A tile of tokens (or one): every block is unpacked once.
void multiply_tile(const View& w, size_t first, size_t last, const unsigned char* x, size_t tokens, float* y,
                   size_t stride) {
    const __m512 multipliers = _mm512_loadu_ps(w.multipliers);
    const __m512 one = _mm512_set1_ps(1);
    __m512 side[kTile];
    __m512 bulk[kTile];
    for (size_t group = first; group < last; ++group) {
        const uint8_t* block = w.groups + group * w.group_bytes;
        const auto* side_at = reinterpret_cast<const SideActivation*>(x);
        for (size_t t = 0; t < tokens; ++t) {
            side[t] = bulk[t] = _mm512_setzero_ps();
        }
        for (size_t b = 0; b < w.side_blocks; ++b, block += kSideBytes) {
            __m512i even[kQuads];
            __m512i odd[kQuads];
            for (size_t j = 0; j < kQuads; ++j) {
                const __m512i h = _mm512_loadu_si512(block + 64 * j);
                even[j] = _mm512_srai_epi16(_mm512_slli_epi16(h, 8), 8);
                odd[j] = _mm512_srai_epi16(h, 8);
            }
            for (size_t t = 0; t < tokens; ++t, ++side_at) {
                side[t] = add_product(sum_side_block(even, odd, side_at), _mm512_set1_ps(side_at->scale), one,
                                      side[t]);
            }
        }
        const auto* at = reinterpret_cast<const Activation*>(side_at);
        for (size_t b = 0; b < w.blocks; ++b, block += kBlockBytes) {
            const __m512i index =
                _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(block + 144)));
            const __mmask16 n = _mm512_movepi32_mask(index);
            const __m512 factor = _mm512_permutexvar_ps(index, multipliers);
            __m512i quads[kQuads];
            unpack_block(block, quads);
            for (size_t t = 0; t < tokens; ++t, ++at) {
                const __m512i offset =
                    _mm512_mask_set1_epi32(_mm512_set1_epi32(at->minus_7_sums), n, at->minus_6_sums);
                const __m512i sum = _mm512_add_epi32(_mm512_slli_epi32(sum_quads(quads, at->a), 1), offset);
                bulk[t] = add_product(sum, _mm512_set1_ps(at->scale), factor, bulk[t]);
            }
        }
        const __m512 row_scales = _mm512_loadu_ps(w.scales + 2 * kRows * group);
        const __m512 side_scales = _mm512_loadu_ps(w.scales + 2 * kRows * group + kRows);
        const size_t rows = w.rows - kRows * group < kRows ? w.rows - kRows * group : kRows;
        const auto mask = static_cast<__mmask16>((1U << rows) - 1);
        for (size_t t = 0; t < tokens; ++t) {
            const __m512 result = _mm512_fmadd_ps(bulk[t], row_scales, _mm512_mul_ps(side[t], side_scales));
            _mm512_mask_storeu_ps(y + t * stride + kRows * group, mask, result);
        }
    }
}

void multiply(const View& w, size_t first, size_t last, const unsigned char* x, size_t tokens, float* y,
              size_t stride) {
    for (size_t tile = 0; tile < tokens; tile += kTile) {
        const size_t count = tokens - tile < kTile ? tokens - tile : kTile;
        multiply_tile(w, first, last, x + tile * token_bytes(w), count, y + tile * stride, stride);
    }
}

}  // namespace

const Kernels kAvx512Vnni = {"avx512-vnni", quantise, quantise_side, multiply, multiply_f32};

}  // namespace kaiju::runtime::kaiju1_kernels
