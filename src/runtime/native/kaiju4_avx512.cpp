// KAIJU4 products with AVX-512 VNNI.
#include "runtime/native/kaiju4_portable-inl.h"
#include "runtime/native/packed_avx512-inl.h"

namespace kaiju::runtime::kaiju4_kernels {

namespace {

using packed::add_product;
using packed::broadcast_quad;

/// A block of a group of rows.
struct Block : Planes {
    using Planes::Planes;

    [[nodiscard]] __m512i vector(size_t v) const { return _mm512_load_si512(nibbles + 64 * v); }
    [[nodiscard]] __mmask64 fifth(size_t quad) const { return load_as<uint64_t>(bits + 8 * quad); }
    /// The rows' multipliers; `table` has them in every four lanes, and its permutation looks at two bits.
    [[nodiscard]] __m512 factor(__m512 table) const {
        const __m512i lanes = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
        const __m512i all = _mm512_set1_epi32(static_cast<int>(indices()));
        return _mm512_permutevar_ps(table, _mm512_srlv_epi32(all, lanes));
    }
};

/// The multipliers in every four lanes. With a mask, because GCC 12 warns of its own header without one.
inline __m512 multiplier_table(const View& w) {
    return _mm512_maskz_broadcast_f32x4(0xFFFF, _mm_loadu_ps(w.multipliers));
}

/// Σ f x a of a block and one token.
template <bool FiveBits>
inline __m512i sum_block(const Block& block, const Activation* x) {
    const __m512i low_half = _mm512_set1_epi8(0x0F);
    __m512i low = _mm512_setzero_si512();
    __m512i high = _mm512_mask_set1_epi32(_mm512_set1_epi32(x->offsets[0]), block.odd(), x->offsets[1]);
    for (size_t v = 0; v < 3; ++v) {
        const __m512i both = block.vector(v);
        // A high half is multiplied where it stands, 16 times too large, which is 2 f.
        low = _mm512_dpbusd_epi32(low, _mm512_and_si512(both, low_half), broadcast_quad(x->a + 8 * v));
        high =
            _mm512_dpbusd_epi32(high, _mm512_andnot_si512(low_half, both), broadcast_quad(x->a + 8 * v + 4));
    }
    return _mm512_add_epi32(_mm512_slli_epi32(low, 4), high);
}

template <>
inline __m512i sum_block<true>(const Block& block, const Activation* x) {
    const __m512i low_half = _mm512_set1_epi8(0x0F);
    const __m512i fifth = _mm512_set1_epi8(0x10);
    __m512i low = _mm512_setzero_si512();
    __m512i high = _mm512_setzero_si512();
    for (size_t v = 0; v < 3; ++v) {
        const __m512i both = block.vector(v);
        const __m512i u0 = _mm512_and_si512(both, low_half);
        const __m512i u1 = _mm512_and_si512(_mm512_srli_epi16(both, 4), low_half);
        low = _mm512_dpbusd_epi32(low, _mm512_mask_add_epi8(u0, block.fifth(2 * v), u0, fifth),
                                  broadcast_quad(x->a + 8 * v));
        high = _mm512_dpbusd_epi32(high, _mm512_mask_add_epi8(u1, block.fifth(2 * v + 1), u1, fifth),
                                   broadcast_quad(x->a + 8 * v + 4));
    }
    const int odd = (x->offsets[0] + x->offsets[1]) / 2;
    const __m512i offset = _mm512_mask_set1_epi32(_mm512_set1_epi32(x->offsets[0]), block.odd(), odd);
    return _mm512_add_epi32(_mm512_slli_epi32(_mm512_add_epi32(low, high), 3), offset);
}

/// The U of a block, a quad a vector.
template <bool FiveBits>
inline void unpack_block(const Block& block, __m512i* quads) {
    constexpr int kHighest = FiveBits ? 0x78 : 0xF0;
    const __m512i mask = _mm512_set1_epi8(static_cast<char>(kHighest));
    const __m512i odd = _mm512_maskz_set1_epi32(block.odd(), FiveBits ? 0x04040404 : 0x08080808);
    constexpr int kAndOr = 0xEA;  // (a & b) | c
    for (size_t v = 0; v < 3; ++v) {
        const __m512i both = block.vector(v);
        const __m512i low = _mm512_slli_epi16(both, FiveBits ? 3 : 4);
        const __m512i high = FiveBits ? _mm512_srli_epi16(both, 1) : both;
        quads[2 * v] = _mm512_ternarylogic_epi32(low, mask, odd, kAndOr);
        quads[2 * v + 1] = _mm512_ternarylogic_epi32(high, mask, odd, kAndOr);
        if constexpr (FiveBits) {
            const __m512i fifth = _mm512_set1_epi8(static_cast<char>(0x80));
            for (size_t j = 2 * v; j < 2 * v + 2; ++j) {
                quads[j] = _mm512_mask_add_epi8(quads[j], block.fifth(j), quads[j], fifth);
            }
        }
    }
}

inline void store(const View& w, size_t group, __m512 acc, float* y) {
    const __m512 result = _mm512_mul_ps(acc, _mm512_loadu_ps(w.scales + kRows * group));
    _mm512_mask_storeu_ps(y + kRows * group, packed::rows_of(w.rows, group), result);
}

/// One token: weights go straight from memory into the sums. It waits for memory, and one group at a time is
/// one stream to prefetch.
template <bool FiveBits>
void multiply_one(const View& w, size_t first, size_t last, const Activation* x, float* y) {
    const __m512 multipliers = multiplier_table(w);
    for (size_t group = first; group < last; ++group) {
        Block block(w, group);
        __m512 acc = _mm512_setzero_ps();
        for (size_t b = 0; b < w.blocks; ++b, block.advance()) {
            acc = add_product(sum_block<FiveBits>(block, x + b), _mm512_set1_ps(x[b].scale),
                              block.factor(multipliers), acc);
        }
        store(w, group, acc, y);
    }
}

/// A tile of tokens times `Groups` groups of rows side by side: every block is unpacked once, every
/// activation loaded once.
template <bool FiveBits, size_t Groups>
void multiply_groups(const View& w, size_t group, const Activation* x, size_t tokens, float* y,
                     size_t stride) {
    const __m512 multipliers = multiplier_table(w);
    __m512 acc[kTile][Groups];
    for (size_t t = 0; t < tokens; ++t) {
        for (size_t g = 0; g < Groups; ++g) {
            acc[t][g] = _mm512_setzero_ps();
        }
    }
    Block blocks[2] = {Block(w, group), Block(w, group + Groups - 1)};
    for (size_t b = 0; b < w.blocks; ++b) {
        __m512 factor[Groups];
        __m512i quads[Groups][kQuads];
        for (size_t g = 0; g < Groups; ++g) {
            factor[g] = blocks[g].factor(multipliers);
            unpack_block<FiveBits>(blocks[g], quads[g]);
            blocks[g].advance();
        }
        for (size_t t = 0; t < tokens; ++t, ++x) {
            __m512i sums[Groups];
            for (size_t g = 0; g < Groups; ++g) {
                sums[g] = _mm512_set1_epi32(x->offsets[0]);
            }
            for (size_t j = 0; j < kQuads; ++j) {
                const __m512i a = broadcast_quad(x->a + 4 * j);
                for (size_t g = 0; g < Groups; ++g) {
                    sums[g] = _mm512_dpbusd_epi32(sums[g], quads[g][j], a);
                }
            }
            const __m512 scale = _mm512_set1_ps(x->scale);
            for (size_t g = 0; g < Groups; ++g) {
                acc[t][g] = add_product(sums[g], scale, factor[g], acc[t][g]);
            }
        }
    }
    for (size_t t = 0; t < tokens; ++t) {
        for (size_t g = 0; g < Groups; ++g) {
            store(w, group + g, acc[t][g], y + t * stride);
        }
    }
}

template <bool FiveBits>
void multiply_as(const View& w, size_t first, size_t last, const Activation* x, size_t tokens, float* y,
                 size_t stride) {
    if (tokens == 1) {
        multiply_one<FiveBits>(w, first, last, x, y);
        return;
    }
    for (size_t tile = 0; tile < tokens; tile += kTile, x += kTile * w.blocks, y += kTile * stride) {
        const size_t count = tokens - tile < kTile ? tokens - tile : kTile;
        size_t group = first;
        for (; group + 2 <= last; group += 2) {
            multiply_groups<FiveBits, 2>(w, group, x, count, y, stride);
        }
        if (group < last) {
            multiply_groups<FiveBits, 1>(w, group, x, count, y, stride);
        }
    }
}

void multiply(const View& w, size_t first, size_t last, const Activation* x, size_t tokens, float* y,
              size_t stride) {
    (w.five_bits ? multiply_as<true> : multiply_as<false>)(w, first, last, x, tokens, y, stride);
}

}  // namespace

const Kernels kAvx512Vnni = {"avx512-vnni", rotate, quantise, multiply, multiply_f32};

}  // namespace kaiju::runtime::kaiju4_kernels
