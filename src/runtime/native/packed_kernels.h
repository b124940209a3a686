// What the kernels of all our wires share. This header is compiled with the flags of every instruction set,
// so it holds plain data only.
//
// Rows lie in groups of 16 and columns in blocks of 24, six quads of four, so that a lane of a vector is a
// row and no sum crosses lanes: four bytes of row r, one a column, are at 4r of a quad's 64 bytes. Integers
// are exact and floating-point operations in one fixed order (with fused multiply-add), so that all
// instruction sets give the same bits. Missing rows of the last group have the scale zero.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kaiju::runtime::packed {

constexpr size_t kRows = 16;  ///< rows in a group
constexpr size_t kCols = 24;  ///< columns in a block
constexpr size_t kQuads = kCols / 4;
constexpr size_t kTile = 32;  ///< tokens that are multiplied together: their activations stay in a cache

/// 24 activations of one token, rounded to `scale` times an integer.
struct Activation {
    int8_t a[kCols];  // NOLINT(modernize-avoid-c-arrays): a plain layout
    float scale;
    int32_t offsets[2];  ///< Σ a times what a wire adds to the weights of its even and its odd blocks
};
static_assert(sizeof(Activation) == 36);

/// Those factors of Σ a.
struct Offsets {
    int32_t even;
    int32_t odd;
};

}  // namespace kaiju::runtime::packed
