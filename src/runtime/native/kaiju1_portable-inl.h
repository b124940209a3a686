// What every instruction set's file compiles for itself, in plain C++. All of it has internal linkage: the
// linker must not take one file's copy, with its instructions, for all.
#include "runtime/native/kaiju1_kernels.h"
#include "runtime/native/packed_portable-inl.h"

namespace kaiju::runtime::kaiju1_kernels {
namespace {

using packed::accumulate;

void quantise(const float* x, Activation* out) {
    packed::quantise(x, kOffsets, out);
}

void quantise_side(const float* x, SideActivation* out) {
    const packed::Rounding rounding = packed::rounding_of(x, 32767);
    int16_t a[kCols];
    packed::round_values(x, rounding, a);
    for (size_t i = 0; i < kCols; ++i) {
        out->a[side_position(i)] = a[i];
    }
    out->scale = rounding.scale;
}

/// The 24 x 16 integers C of a block, as f32, column by column.
void decode_block(const uint8_t* block, float* out) {
    for (size_t row = 0; row < kRows; ++row) {
        const int n = block[144 + row] >> 7;
        for (size_t k = 0; k < 4; ++k) {
            const size_t lane = 4 * row + k;
            const int x0 = block[lane];
            const int x1 = block[64 + lane];
            const int low = block[128 + 8 * (lane / 32) + lane % 8] >> (2 * (lane % 32 / 8));
            const int w[kQuads] = {x0 & 7,
                                   x0 >> 3 & 7,
                                   x1 & 7,
                                   x1 >> 3 & 7,
                                   (x0 >> 5 & 6) | (low & 1),
                                   (x1 >> 5 & 6) | (low >> 1 & 1)};
            for (size_t j = 0; j < kQuads; ++j) {
                out[(4 * j + k) * kRows + row] = static_cast<float>(2 * w[j] + n - 7);
            }
        }
    }
}

void decode_side_block(const uint8_t* block, float* out) {
    for (size_t column = 0; column < kCols; ++column) {
        for (size_t row = 0; row < kRows; ++row) {
            out[column * kRows + row] =
                static_cast<float>(static_cast<int8_t>(block[64 * (column / 4) + 4 * row + column % 4]));
        }
    }
}

void multiply_f32(const View& w, size_t first, size_t last, const float* x, size_t tokens, float* y,
                  size_t stride) {
    const size_t all_blocks = w.side_blocks + w.blocks;
    float weights[kCols * kRows];
    float acc[kTile * kRows];
    for (size_t tile = 0; tile < tokens; tile += kTile) {
        const size_t count = tokens - tile < kTile ? tokens - tile : kTile;
        const float* tile_x = x + tile * all_blocks * kCols;
        for (size_t group = first; group < last; ++group) {
            const float* scales = w.scales + 2 * kRows * group;
            const uint8_t* block = w.groups + group * w.group_bytes;
            const float* at = tile_x;
            std::memset(acc, 0, sizeof(acc));
            for (size_t b = 0; b < w.side_blocks; ++b, block += kSideBytes, at += count * kCols) {
                decode_side_block(block, weights);
                accumulate(weights, scales + kRows, at, count, acc);
            }
            for (size_t b = 0; b < w.blocks; ++b, block += kBlockBytes, at += count * kCols) {
                decode_block(block, weights);
                float step[kRows];
                for (size_t row = 0; row < kRows; ++row) {
                    step[row] = scales[row] * w.multipliers[block[144 + row] & 15];
                }
                accumulate(weights, step, at, count, acc);
            }
            const size_t rows = w.rows - kRows * group < kRows ? w.rows - kRows * group : kRows;
            for (size_t t = 0; t < count; ++t) {
                std::memcpy(y + (tile + t) * stride + kRows * group, acc + kRows * t, rows * sizeof(float));
            }
        }
    }
}

}  // namespace
}  // namespace kaiju::runtime::kaiju1_kernels
