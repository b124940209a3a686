// KAIJU1 products with AVX-512 VNNI.
#include "runtime/native/kaiju1_portable-inl.h"
#include "runtime/native/packed_avx512-inl.h"

namespace kaiju::runtime::kaiju1_kernels {

namespace {

using packed::add_product;
using packed::broadcast_quad;

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

/// A tile of tokens (or one) times `Groups` groups of rows side by side: every block is unpacked once, every
/// activation loaded once.
template <size_t Groups>
void multiply_groups(const View& w, size_t group, const unsigned char* x, size_t tokens, float* y,
                     size_t stride) {
    const __m512 multipliers = _mm512_loadu_ps(w.multipliers);
    const __m512 one = _mm512_set1_ps(1);
    __m512 side[kTile][Groups];
    __m512 bulk[kTile][Groups];
    const uint8_t* block[Groups];
    for (size_t g = 0; g < Groups; ++g) {
        block[g] = w.groups + (group + g) * w.group_bytes;
        for (size_t t = 0; t < tokens; ++t) {
            side[t][g] = bulk[t][g] = _mm512_setzero_ps();
        }
    }
    const auto* side_at = reinterpret_cast<const SideActivation*>(x);
    for (size_t b = 0; b < w.side_blocks; ++b, side_at += tokens) {
        for (size_t g = 0; g < Groups; ++g) {
            __m512i even[kQuads];
            __m512i odd[kQuads];
            for (size_t j = 0; j < kQuads; ++j) {
                const __m512i h = _mm512_loadu_si512(block[g] + 64 * j);
                even[j] = _mm512_srai_epi16(_mm512_slli_epi16(h, 8), 8);
                odd[j] = _mm512_srai_epi16(h, 8);
            }
            for (size_t t = 0; t < tokens; ++t) {
                side[t][g] = add_product(sum_side_block(even, odd, side_at + t),
                                         _mm512_set1_ps(side_at[t].scale), one, side[t][g]);
            }
            block[g] += kSideBytes;
        }
    }
    const auto* at = reinterpret_cast<const Activation*>(side_at);
    for (size_t b = 0; b < w.blocks; ++b) {
        __mmask16 n[Groups];
        __m512 factor[Groups];
        __m512i quads[Groups][kQuads];
        for (size_t g = 0; g < Groups; ++g) {
            const __m512i index =
                _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(block[g] + 144)));
            n[g] = _mm512_movepi32_mask(index);
            factor[g] = _mm512_permutexvar_ps(index, multipliers);
            unpack_block(block[g], quads[g]);
            block[g] += kBlockBytes;
        }
        for (size_t t = 0; t < tokens; ++t, ++at) {
            __m512i sums[2][Groups];  // two chains of three
            for (size_t j = 0; j < kQuads; ++j) {
                const __m512i a = broadcast_quad(at->a + 4 * j);
                for (size_t g = 0; g < Groups; ++g) {
                    sums[j % 2][g] =
                        _mm512_dpbusd_epi32(j < 2 ? _mm512_setzero_si512() : sums[j % 2][g], quads[g][j], a);
                }
            }
            const __m512i minus_7 = _mm512_set1_epi32(at->offsets[0]);
            const __m512i minus_6 = _mm512_set1_epi32(at->offsets[1]);
            const __m512 scale = _mm512_set1_ps(at->scale);
            for (size_t g = 0; g < Groups; ++g) {
                const __m512i sum = _mm512_slli_epi32(_mm512_add_epi32(sums[0][g], sums[1][g]), 1);
                const __m512i offset = _mm512_mask_blend_epi32(n[g], minus_7, minus_6);
                bulk[t][g] = add_product(_mm512_add_epi32(sum, offset), scale, factor[g], bulk[t][g]);
            }
        }
    }
    for (size_t g = 0; g < Groups; ++g) {
        const __m512 row_scales = _mm512_loadu_ps(w.scales + 2 * kRows * (group + g));
        const __m512 side_scales = _mm512_loadu_ps(w.scales + 2 * kRows * (group + g) + kRows);
        const size_t first_row = kRows * (group + g);
        const __mmask16 mask = packed::rows_of(w.rows, group + g);
        for (size_t t = 0; t < tokens; ++t) {
            const __m512 result =
                _mm512_fmadd_ps(bulk[t][g], row_scales, _mm512_mul_ps(side[t][g], side_scales));
            _mm512_mask_storeu_ps(y + t * stride + first_row, mask, result);
        }
    }
}

/// One token waits for memory, and one group at a time is one stream to prefetch.
void multiply_tile(const View& w, size_t first, size_t last, const unsigned char* x, size_t tokens, float* y,
                   size_t stride) {
    size_t group = first;
    for (; tokens > 1 && group + 2 <= last; group += 2) {
        multiply_groups<2>(w, group, x, tokens, y, stride);
    }
    for (; group < last; ++group) {
        multiply_groups<1>(w, group, x, tokens, y, stride);
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
