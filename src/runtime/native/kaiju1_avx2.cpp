// KAIJU1 products with AVX2 and FMA.
#include "runtime/native/kaiju1_portable-inl.h"
#include "runtime/native/packed_avx2-inl.h"

namespace kaiju::runtime::kaiju1_kernels {

namespace {

using packed::add_product;
using packed::broadcast_quad;
using packed::kLanes;
using packed::load;

/// The eight rows' bytes at `at`, sign-extended.
inline __m256i load_rows(const uint8_t* at) {
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(at)));
}

/// The multipliers that rows' index bytes name. A permutation looks at three bits of an index, so the fourth
/// chooses between the halves of the table.
struct Multipliers {
    __m256 low;
    __m256 high;
    explicit Multipliers(const float* table)
        : low(_mm256_loadu_ps(table)), high(_mm256_loadu_ps(table + 8)) {}
    [[nodiscard]] __m256 of(__m256i index) const {
        const __m256 fourth_bit = _mm256_castsi256_ps(_mm256_slli_epi32(index, 28));
        return _mm256_blendv_ps(_mm256_permutevar8x32_ps(low, index), _mm256_permutevar8x32_ps(high, index),
                                fourth_bit);
    }
};

/// The low bits of w4 and w5 at bits 0 and 1 of every lane, other bits undefined.
inline __m256i low_bits(const uint8_t* at) {
    int64_t bytes = 0;
    std::memcpy(&bytes, at, sizeof(bytes));
    return _mm256_srlv_epi64(_mm256_set1_epi64x(bytes), _mm256_set_epi64x(6, 4, 2, 0));
}

/// Σ w a over the six quads of half a block, two sums of 16 bits a row. Each is below 12 * 7 * 127.
inline __m256i sum_block(const uint8_t* block, size_t half, const int8_t* a) {
    const __m256i three_bits = _mm256_set1_epi8(7);
    const __m256i upper_bits = _mm256_set1_epi8(6);
    const __m256i one_bit = _mm256_set1_epi8(1);
    const __m256i x0 = load(block + 32 * half);
    const __m256i x1 = load(block + 64 + 32 * half);
    const __m256i low = low_bits(block + 128 + 8 * half);
    const __m256i w0 = _mm256_and_si256(x0, three_bits);
    const __m256i w1 = _mm256_and_si256(_mm256_srli_epi16(x0, 3), three_bits);
    const __m256i w2 = _mm256_and_si256(x1, three_bits);
    const __m256i w3 = _mm256_and_si256(_mm256_srli_epi16(x1, 3), three_bits);
    const __m256i w4 = _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(x0, 5), upper_bits),
                                       _mm256_and_si256(low, one_bit));
    const __m256i w5 = _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(x1, 5), upper_bits),
                                       _mm256_and_si256(_mm256_srli_epi16(low, 1), one_bit));
    const __m256i s01 = _mm256_add_epi16(_mm256_maddubs_epi16(w0, broadcast_quad(a)),
                                         _mm256_maddubs_epi16(w1, broadcast_quad(a + 4)));
    const __m256i s23 = _mm256_add_epi16(_mm256_maddubs_epi16(w2, broadcast_quad(a + 8)),
                                         _mm256_maddubs_epi16(w3, broadcast_quad(a + 12)));
    const __m256i s45 = _mm256_add_epi16(_mm256_maddubs_epi16(w4, broadcast_quad(a + 16)),
                                         _mm256_maddubs_epi16(w5, broadcast_quad(a + 20)));
    return _mm256_add_epi16(_mm256_add_epi16(s01, s23), s45);
}

/// Σ h a over the side-band's 24 columns. The weights of columns 4j and 4j + 2 are sign-extended in one
/// vector, those between them in another; so are the activations stored (kaiju1_kernels.h).
inline __m256i sum_side_block(const uint8_t* block, size_t half, const SideActivation* x) {
    __m256i even_sum = _mm256_setzero_si256();
    __m256i odd_sum = _mm256_setzero_si256();
    for (size_t j = 0; j < kQuads; ++j) {
        const __m256i h = load(block + 64 * j + 32 * half);
        const __m256i even = _mm256_srai_epi16(_mm256_slli_epi16(h, 8), 8);
        const __m256i odd = _mm256_srai_epi16(h, 8);
        int32_t pairs[2];
        std::memcpy(pairs, x->a + 4 * j, sizeof(pairs));
        even_sum = _mm256_add_epi32(even_sum, _mm256_madd_epi16(even, _mm256_set1_epi32(pairs[0])));
        odd_sum = _mm256_add_epi32(odd_sum, _mm256_madd_epi16(odd, _mm256_set1_epi32(pairs[1])));
    }
    return _mm256_add_epi32(even_sum, odd_sum);
}

/// Stores a half group's answers, those of them that are rows of the matrix.
inline void store(const View& w, size_t group, size_t half, __m256 side, __m256 bulk, float* y) {
    const float* scales = w.scales + 2 * kRows * group + kLanes * half;
    const __m256 result =
        _mm256_fmadd_ps(bulk, _mm256_loadu_ps(scales), _mm256_mul_ps(side, _mm256_loadu_ps(scales + kRows)));
    packed::store_rows(w.rows, group, half, result, y);
}

/// One token: weights go straight from memory into the sums.
void multiply_one(const View& w, size_t first, size_t last, const unsigned char* x, float* y) {
    const Multipliers multipliers(w.multipliers);
    const __m256i twos = _mm256_set1_epi16(2);
    const __m256 one = _mm256_set1_ps(1);
    for (size_t group = first; group < last; ++group) {
        const uint8_t* block = w.groups + group * w.group_bytes;
        const auto* side_at = reinterpret_cast<const SideActivation*>(x);
        __m256 side[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
        __m256 bulk[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
        for (size_t b = 0; b < w.side_blocks; ++b, block += kSideBytes, ++side_at) {
            const __m256 scale = _mm256_set1_ps(side_at->scale);
            for (size_t half = 0; half < 2; ++half) {
                side[half] = add_product(sum_side_block(block, half, side_at), scale, one, side[half]);
            }
        }
        const auto* at = reinterpret_cast<const Activation*>(side_at);
        for (size_t b = 0; b < w.blocks; ++b, block += kBlockBytes, ++at) {
            const __m256 scale = _mm256_set1_ps(at->scale);
            const __m256 minus_7 = _mm256_castsi256_ps(_mm256_set1_epi32(at->offsets[0]));
            const __m256 minus_6 = _mm256_castsi256_ps(_mm256_set1_epi32(at->offsets[1]));
            for (size_t half = 0; half < 2; ++half) {
                const __m256i index = load_rows(block + 144 + 8 * half);
                const __m256i offset =  // by bit 7 of the index, which its extension left at bit 31
                    _mm256_castps_si256(_mm256_blendv_ps(minus_7, minus_6, _mm256_castsi256_ps(index)));
                const __m256i sum =
                    _mm256_add_epi32(_mm256_madd_epi16(sum_block(block, half, at->a), twos), offset);
                bulk[half] = add_product(sum, scale, multipliers.of(index), bulk[half]);
            }
        }
        store(w, group, 0, side[0], bulk[0], y);
        store(w, group, 1, side[1], bulk[1], y);
    }
}

/// 2 w + n of half a block, the quads in six vectors: what several tokens share.
inline void unpack_block(const uint8_t* block, size_t half, __m256i index, __m256i* w) {
    const __m256i mask = _mm256_set1_epi8(14);
    const __m256i upper_bits = _mm256_set1_epi8(12);
    const __m256i one_bit = _mm256_set1_epi8(2);
    const __m256i n = _mm256_and_si256(_mm256_srai_epi32(index, 31), _mm256_set1_epi8(1));
    const __m256i x0 = load(block + 32 * half);
    const __m256i x1 = load(block + 64 + 32 * half);
    const __m256i low = low_bits(block + 128 + 8 * half);
    w[0] = _mm256_or_si256(_mm256_and_si256(_mm256_slli_epi16(x0, 1), mask), n);
    w[1] = _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(x0, 2), mask), n);
    w[2] = _mm256_or_si256(_mm256_and_si256(_mm256_slli_epi16(x1, 1), mask), n);
    w[3] = _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(x1, 2), mask), n);
    w[4] = _mm256_or_si256(_mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(x0, 4), upper_bits), n),
                           _mm256_and_si256(_mm256_slli_epi16(low, 1), one_bit));
    w[5] = _mm256_or_si256(_mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(x1, 4), upper_bits), n),
                           _mm256_and_si256(low, one_bit));
}

/// A tile of tokens: every block is unpacked once.
void multiply_tile(const View& w, size_t first, size_t last, const unsigned char* x, size_t tokens, float* y,
                   size_t stride) {
    const Multipliers multipliers(w.multipliers);
    const __m256i ones = _mm256_set1_epi16(1);
    const __m256 one = _mm256_set1_ps(1);
    __m256 side[kTile];
    __m256 bulk[kTile];
    for (size_t unit = 2 * first; unit < 2 * last; ++unit) {
        const size_t group = unit / 2;
        const size_t half = unit % 2;
        const uint8_t* block = w.groups + group * w.group_bytes;
        const auto* side_at = reinterpret_cast<const SideActivation*>(x);
        for (size_t t = 0; t < tokens; ++t) {
            side[t] = bulk[t] = _mm256_setzero_ps();
        }
        for (size_t b = 0; b < w.side_blocks; ++b, block += kSideBytes) {
            for (size_t t = 0; t < tokens; ++t, ++side_at) {
                side[t] = add_product(sum_side_block(block, half, side_at), _mm256_set1_ps(side_at->scale),
                                      one, side[t]);
            }
        }
        const auto* at = reinterpret_cast<const Activation*>(side_at);
        for (size_t b = 0; b < w.blocks; ++b, block += kBlockBytes) {
            const __m256i index = load_rows(block + 144 + 8 * half);
            const __m256 factor = multipliers.of(index);
            __m256i c[kQuads];
            unpack_block(block, half, index, c);
            for (size_t t = 0; t < tokens; ++t, ++at) {
                __m256i s0 = _mm256_maddubs_epi16(c[0], broadcast_quad(at->a));
                __m256i s1 = _mm256_maddubs_epi16(c[1], broadcast_quad(at->a + 4));
                s0 = _mm256_add_epi16(s0, _mm256_maddubs_epi16(c[2], broadcast_quad(at->a + 8)));
                s1 = _mm256_add_epi16(s1, _mm256_maddubs_epi16(c[3], broadcast_quad(at->a + 12)));
                s0 = _mm256_add_epi16(s0, _mm256_maddubs_epi16(c[4], broadcast_quad(at->a + 16)));
                s1 = _mm256_add_epi16(s1, _mm256_maddubs_epi16(c[5], broadcast_quad(at->a + 20)));
                const __m256i sum = _mm256_add_epi32(_mm256_madd_epi16(_mm256_add_epi16(s0, s1), ones),
                                                     _mm256_set1_epi32(at->offsets[0]));
                bulk[t] = add_product(sum, _mm256_set1_ps(at->scale), factor, bulk[t]);
            }
        }
        for (size_t t = 0; t < tokens; ++t) {
            store(w, group, half, side[t], bulk[t], y + t * stride);
        }
    }
}

void multiply(const View& w, size_t first, size_t last, const unsigned char* x, size_t tokens, float* y,
              size_t stride) {
    if (tokens == 1) {
        multiply_one(w, first, last, x, y);
        return;
    }
    for (size_t tile = 0; tile < tokens; tile += kTile) {
        const size_t count = tokens - tile < kTile ? tokens - tile : kTile;
        multiply_tile(w, first, last, x + tile * token_bytes(w), count, y + tile * stride, stride);
    }
}

}  // namespace

const Kernels kAvx2 = {"avx2", quantise, quantise_side, multiply, multiply_f32};

}  // namespace kaiju::runtime::kaiju1_kernels
