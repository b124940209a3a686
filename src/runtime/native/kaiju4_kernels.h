// The products of a packed KAIJU4 matrix, one file per instruction set (kaiju4_<name>.cpp). This header is
// compiled with the flags of each of them, so it holds plain data only.
//
// The packed form. Every value of a block is x = m + 2k, k = c + 2z; k lies in -8..7 for indices of up to 8
// bits, in -16..15 above, so u = k + 8 has 4 bits and u = k + 16 has 5. With f = 8 or 4
//     f x = U - 128,   U = 2 f u + f m,   0 <= U <= 255
// so the product of a block with integers a is Σ U a - 128 Σ a: unsigned times signed bytes, which every
// instruction set has, and no tables. The f is divided out of the multipliers, which is exact. It takes 4.125
// bits a weight (5.125), the wire 1.75 to 3 (3.25 to 4). Rejected: z, c and m apart, 3.6 bits (a Golay word
// from a table per row and block); one byte a row for m and the multiplier, 4.33 bits (no fewer
// instructions).
//
// A group of rows (packed_kernels.h) holds three planes, a block after another in each:
//     nibbles, 192 bytes: three vectors of 64; byte 4r + k of vector v has u of row r, column 8v + k, in its
//              low half, that of column 8v + 4 + k in its high half (their lowest four bits)
//     bits, 48 bytes, only where u has 5: bit 4r + k of 64-bit word j is the fifth of row r, column 4j + k
//     heads, 6 bytes: u32, row r's multiplier index at bits 2r, 2r + 1; u16, row r's m at bit r
#pragma once

#include "runtime/native/packed_kernels.h"

namespace kaiju::runtime::kaiju4_kernels {

using packed::Activation;
using packed::kCols;
using packed::kQuads;
using packed::kRows;
using packed::kTile;

constexpr size_t kNibbleBytes = kRows * kCols / 2;
constexpr size_t kBitBytes = kRows * kCols / 8;
constexpr size_t kHeadBytes = 6;

/// What a block of m = 0 and one of m = 1 add to Σ 2 f u a, by Σ a; f = 8. Where f is 4 the second is
/// halfway.
constexpr packed::Offsets kOffsets = {-128, -120};

/// A packed matrix.
struct View {
    size_t rows;
    size_t blocks;
    bool five_bits;            ///< of u
    const uint8_t* groups;     ///< group g at g * group_bytes, aligned to 64 bytes
    size_t group_bytes;        ///< the planes, and padding
    const float* scales;       ///< row_scale of group g's rows at 16 g
    const float* multipliers;  ///< 4, over f
};

constexpr size_t bits_at(const View& w) {
    return kNibbleBytes * w.blocks;
}
constexpr size_t heads_at(const View& w) {
    return bits_at(w) + (w.five_bits ? kBitBytes * w.blocks : 0);
}

/// The kernels of one instruction set.
///
/// Activations of `tokens` tokens lie in tiles of kTile, in a tile block by block, in a block token by token.
/// multiply* write rows 16 first .. 16 last (those there are) of every token.
struct Kernels {
    const char* name;
    /// out = H (signs ∘ x) for `count` values, runs of `span` of them (docs/kaiju4.md, 2).
    void (*rotate)(const float* x, const float* signs, size_t count, size_t span, float* out);
    /// Rounds 24 values. Where one is not finite the scale is NaN.
    void (*quantise)(const float* x, Activation* out);
    void (*multiply)(const View& w, size_t first, size_t last, const Activation* x, size_t tokens, float* y,
                     size_t stride);
    /// The same with f32 activations, 24 values in the place of an Activation.
    void (*multiply_f32)(const View& w, size_t first, size_t last, const float* x, size_t tokens, float* y,
                         size_t stride);
};

extern const Kernels kScalar;
extern const Kernels kAvx2;        ///< AVX2, FMA; only where the build is for x86-64
extern const Kernels kAvx512Vnni;  ///< AVX-512 F, BW, VL, VNNI; only where the build is for x86-64

}  // namespace kaiju::runtime::kaiju4_kernels
