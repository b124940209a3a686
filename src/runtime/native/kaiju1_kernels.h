// The products of a packed KAIJU1 matrix, one file per instruction set (kaiju1_<name>.cpp). This header is
// compiled with the flags of each of them, so it holds plain data only.
//
// The packed form. C = s (m + 2c + 4z) has at most eight values of one parity in a block, whatever the flip:
//     C = 2 w + n - 7,   n = 1 - m,   w = m + c + 2z + 3 without flip, 3 - c - 2z with it, 0 <= w <= 7.
// So 3 bits a weight and one bit a block say everything that 7 bytes of code say, and the product of a block
// with integers a is 2 Σ w a + (n - 7) Σ a: unsigned times signed bytes, which every instruction set has, and
// no tables. It takes 3.33 bits a weight with the multiplier's index, the wire 2.5. Rejected: the wire in
// place (a Golay word and base-3 digits cost more instructions than the memory they save), 4 bits a weight
// (fewer instructions, but a third more memory, and memory is what limits one token at a time), base 6 (three
// weights in a byte, 2.67 bits, but two multiplications to take them apart).
//
// A group of rows (packed_kernels.h) holds its side-band, then its blocks:
//     side-band: for each 24 columns (the last padded with zeros), 6 quads of 64 bytes: i8 of row r, column
//                4j + k at 4r + k of quad j.
//     block, 160 bytes: lanes as above, quads w0..w5 of 3 bits at the same 64 lanes:
//         64 bytes  w0 | w1 << 3 | (w4 >> 1) << 6
//         64 bytes  w2 | w3 << 3 | (w5 >> 1) << 6
//         16 bytes  the low bits of w4 and w5: of lane 32h + 8g + i at bits 2g (w4) and 2g + 1 (w5) of byte
//                   8h + i
//         16 bytes  of row r: multiplier index | n << 7
#pragma once

#include "runtime/native/packed_kernels.h"

namespace kaiju::runtime::kaiju1_kernels {

using packed::Activation;
using packed::kCols;
using packed::kQuads;
using packed::kRows;
using packed::kTile;

constexpr size_t kBlockBytes = 160;  ///< a block of kRows x kCols weights
constexpr size_t kSideBytes = kRows * kCols;

/// n - 7, by which the product of a block is 2 Σ w a + (n - 7) Σ a.
constexpr packed::Offsets kOffsets = {-7, -6};

/// 24 activations of side-band columns, rounded to `scale` times an integer of 16 bits. The most important
/// columns are those with the largest activations, some of them a hundred times their neighbours', which 8
/// bits at one scale would round away; and there are few of them.
struct SideActivation {
    int16_t a[kCols];  // NOLINT(modernize-avoid-c-arrays): a plain layout; of columns 4j, 4j+2, 4j+1, 4j+3
    float scale;
};
static_assert(sizeof(SideActivation) == 52);

/// A packed matrix.
struct View {
    size_t rows;
    size_t side_blocks;        ///< 24-column blocks of the side-band
    size_t blocks;             ///< 24-column blocks of the bulk
    const uint8_t* groups;     ///< group g at g * group_bytes
    size_t group_bytes;        ///< side_blocks * kSideBytes + blocks * kBlockBytes
    const float* scales;       ///< of group g at 32 g: row_scale of its 16 rows, then hi_scale
    const float* multipliers;  ///< 16
};

/// The kernels of one instruction set.
///
/// Activations of `tokens` tokens lie in tiles of kTile, in a tile block by block (side-band first), in a
/// block token by token. multiply* write rows 16 first .. 16 last (those there are) of every token.
struct Kernels {
    const char* name;
    /// Rounds 24 values, those of a side-band's block finer. Where one is not finite the scale is NaN.
    void (*quantise)(const float* x, Activation* out);
    void (*quantise_side)(const float* x, SideActivation* out);
    /// `x`: SideActivations, then Activations.
    void (*multiply)(const View& w, size_t first, size_t last, const unsigned char* x, size_t tokens,
                     float* y, size_t stride);
    /// The same with f32 activations, 24 values in the place of either.
    void (*multiply_f32)(const View& w, size_t first, size_t last, const float* x, size_t tokens, float* y,
                         size_t stride);
};

/// Bytes of one token's activations.
constexpr size_t token_bytes(const View& w) {
    return w.side_blocks * sizeof(SideActivation) + w.blocks * sizeof(Activation);
}

/// Where the activation of a side-band column lies among the 24: pairs that one instruction multiplies are
/// neighbours.
constexpr size_t side_position(size_t column) {
    const size_t in_quad = column % 4;
    return column - in_quad + (in_quad == 1 ? 2 : in_quad == 2 ? 1 : in_quad);
}

extern const Kernels kScalar;
extern const Kernels kAvx2;        ///< AVX2, FMA; only where the build is for x86-64
extern const Kernels kAvx512Vnni;  ///< AVX-512 F, BW, VL, VNNI; only where the build is for x86-64

}  // namespace kaiju::runtime::kaiju1_kernels
