// KAIJU4 products with AVX2 and FMA.
#include "runtime/native/kaiju4_portable-inl.h"
#include "runtime/native/packed_avx2-inl.h"

namespace kaiju::runtime::kaiju4_kernels {

namespace {

using packed::add_product;
using packed::broadcast_quad;
using packed::kLanes;

/// Half the rows of a block: `half` 0 or 1.
struct HalfBlock : Planes {
    size_t half;
    __m256i row_shifts;  ///< 2r for each row r

    HalfBlock(const View& w, size_t group, size_t which)
        : Planes(w, group),
          half(which),
          row_shifts(_mm256_add_epi32(_mm256_set_epi32(14, 12, 10, 8, 6, 4, 2, 0),
                                      _mm256_set1_epi32(16 * static_cast<int>(which)))) {}

    [[nodiscard]] __m256i vector(size_t v) const { return packed::load(nibbles + 64 * v + 32 * half); }

    /// 0x10 in the bytes of a quad whose fifth bit is set.
    [[nodiscard]] __m256i fifth(size_t quad) const {
        const __m256i byte_of_lane =
            _mm256_set_epi64x(0x0303030303030303, 0x0202020202020202, 0x0101010101010101, 0);
        const __m256i bit_of_lane = _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201U));
        const __m256i all =
            _mm256_set1_epi32(static_cast<int>(load_as<uint32_t>(bits + 8 * quad + 4 * half)));
        const __m256i bit = _mm256_and_si256(_mm256_shuffle_epi8(all, byte_of_lane), bit_of_lane);
        return _mm256_and_si256(_mm256_cmpeq_epi8(bit, bit_of_lane), _mm256_set1_epi8(0x10));
    }

    /// All ones in the lanes of rows whose m is 1.
    [[nodiscard]] __m256i odd_rows() const {
        const __m256i bit_of_row = _mm256_set_epi32(128, 64, 32, 16, 8, 4, 2, 1);
        const __m256i all = _mm256_set1_epi32(heads[4 + half]);
        return _mm256_cmpeq_epi32(_mm256_and_si256(all, bit_of_row), bit_of_row);
    }

    /// The rows' multipliers; `table` has them in every four lanes, and its permutation looks at two bits.
    [[nodiscard]] __m256 factor(__m256 table) const {
        const __m256i all = _mm256_set1_epi32(static_cast<int>(indices()));
        return _mm256_permutevar_ps(table, _mm256_srlv_epi32(all, row_shifts));
    }
};

/// The u of two quads.
struct Pair {
    __m256i low;
    __m256i high;
};

template <bool FiveBits>
inline Pair unpack_pair(const HalfBlock& block, size_t v) {
    const __m256i low_half = _mm256_set1_epi8(0x0F);
    const __m256i both = block.vector(v);
    Pair u = {_mm256_and_si256(both, low_half), _mm256_and_si256(_mm256_srli_epi16(both, 4), low_half)};
    if constexpr (FiveBits) {
        u.low = _mm256_or_si256(u.low, block.fifth(2 * v));
        u.high = _mm256_or_si256(u.high, block.fifth(2 * v + 1));
    }
    return u;
}

/// Σ f x a of a block and one token. Sums of 16 bits: three quads of five bits are at most 6 * 31 * 127, six
/// of four bits 12 * 15 * 127.
template <bool FiveBits>
inline __m256i sum_block(const HalfBlock& block, const Activation* x) {
    __m256i low = _mm256_setzero_si256();
    __m256i high = _mm256_setzero_si256();
    for (size_t v = 0; v < 3; ++v) {
        const Pair u = unpack_pair<FiveBits>(block, v);
        low = _mm256_add_epi16(low, _mm256_maddubs_epi16(u.low, broadcast_quad(x->a + 8 * v)));
        high = _mm256_add_epi16(high, _mm256_maddubs_epi16(u.high, broadcast_quad(x->a + 8 * v + 4)));
    }
    const __m256i twice_f = _mm256_set1_epi16(FiveBits ? 8 : 16);
    const int odd = FiveBits ? (x->offsets[0] + x->offsets[1]) / 2 : x->offsets[1];
    const __m256i offset =
        _mm256_blendv_epi8(_mm256_set1_epi32(x->offsets[0]), _mm256_set1_epi32(odd), block.odd_rows());
    const __m256i sum =
        FiveBits ? _mm256_add_epi32(_mm256_madd_epi16(low, twice_f), _mm256_madd_epi16(high, twice_f))
                 : _mm256_madd_epi16(_mm256_add_epi16(low, high), twice_f);
    return _mm256_add_epi32(sum, offset);
}

inline void store(const View& w, size_t group, size_t half, __m256 acc, float* y) {
    const __m256 scales = _mm256_loadu_ps(w.scales + kRows * group + kLanes * half);
    packed::store_rows(w.rows, group, half, _mm256_mul_ps(acc, scales), y);
}

/// One token: weights go straight from memory into the sums.
template <bool FiveBits>
void multiply_one(const View& w, size_t first, size_t last, const Activation* x, float* y) {
    const __m256 multipliers = _mm256_broadcast_ps(reinterpret_cast<const __m128*>(w.multipliers));
    for (size_t group = first; group < last; ++group) {
        HalfBlock halves[2] = {HalfBlock(w, group, 0), HalfBlock(w, group, 1)};
        __m256 acc[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
        for (size_t b = 0; b < w.blocks; ++b) {
            const __m256 scale = _mm256_set1_ps(x[b].scale);
            for (size_t half = 0; half < 2; ++half) {
                acc[half] = add_product(sum_block<FiveBits>(halves[half], x + b), scale,
                                        halves[half].factor(multipliers), acc[half]);
                halves[half].advance();
            }
        }
        store(w, group, 0, acc[0], y);
        store(w, group, 1, acc[1], y);
    }
}

/// 2 u + m of half a block, the quads in six vectors: what several tokens share.
template <bool FiveBits>
inline void unpack_block(const HalfBlock& block, __m256i* quads) {
    const __m256i odd = _mm256_and_si256(block.odd_rows(), _mm256_set1_epi8(1));
    for (size_t v = 0; v < 3; ++v) {
        const Pair u = unpack_pair<FiveBits>(block, v);
        quads[2 * v] = _mm256_or_si256(_mm256_add_epi8(u.low, u.low), odd);
        quads[2 * v + 1] = _mm256_or_si256(_mm256_add_epi8(u.high, u.high), odd);
    }
}

/// A tile of tokens: every block is unpacked once.
template <bool FiveBits>
void multiply_tile(const View& w, size_t first, size_t last, const Activation* x, size_t tokens, float* y,
                   size_t stride) {
    // How many quads sum up in 16 bits: 2 u + m is at most 31 or 63, two products of a lane with 127 each.
    constexpr size_t kSums = FiveBits ? 3 : 2;
    const __m256 multipliers = _mm256_broadcast_ps(reinterpret_cast<const __m128*>(w.multipliers));
    const __m256i f = _mm256_set1_epi16(FiveBits ? 4 : 8);
    __m256 acc[kTile];
    for (size_t unit = 2 * first; unit < 2 * last; ++unit) {
        HalfBlock block(w, unit / 2, unit % 2);
        for (size_t t = 0; t < tokens; ++t) {
            acc[t] = _mm256_setzero_ps();
        }
        const Activation* at = x;
        for (size_t b = 0; b < w.blocks; ++b, block.advance()) {
            const __m256 factor = block.factor(multipliers);
            __m256i quads[kQuads];
            unpack_block<FiveBits>(block, quads);
            for (size_t t = 0; t < tokens; ++t, ++at) {
                __m256i sums[kSums];
                for (size_t j = 0; j < kQuads; ++j) {
                    const __m256i products = _mm256_maddubs_epi16(quads[j], broadcast_quad(at->a + 4 * j));
                    sums[j % kSums] = j < kSums ? products : _mm256_add_epi16(sums[j % kSums], products);
                }
                __m256i sum = _mm256_set1_epi32(at->offsets[0]);
                for (const __m256i part : sums) {
                    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(part, f));
                }
                acc[t] = add_product(sum, _mm256_set1_ps(at->scale), factor, acc[t]);
            }
        }
        for (size_t t = 0; t < tokens; ++t) {
            store(w, unit / 2, unit % 2, acc[t], y + t * stride);
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
    for (size_t tile = 0; tile < tokens; tile += kTile) {
        const size_t count = tokens - tile < kTile ? tokens - tile : kTile;
        multiply_tile<FiveBits>(w, first, last, x + tile * w.blocks, count, y + tile * stride, stride);
    }
}

void multiply(const View& w, size_t first, size_t last, const Activation* x, size_t tokens, float* y,
              size_t stride) {
    (w.five_bits ? multiply_as<true> : multiply_as<false>)(w, first, last, x, tokens, y, stride);
}

}  // namespace

const Kernels kAvx2 = {"avx2", rotate, quantise, multiply, multiply_f32};

}  // namespace kaiju::runtime::kaiju4_kernels
