// What every instruction set's file compiles for itself, in plain C++. All of it has internal linkage: the
// linker must not take one file's copy, with its instructions, for all.
#include <cmath>
#include <cstring>

#include "runtime/native/kaiju1_kernels.h"

namespace kaiju::runtime::kaiju1_kernels {
namespace {

/// Rounds to the nearest integer, half to even, for |x| < 2^22: the sum has no room for a fraction.
inline float round_to_integer(float x) {
    constexpr float kMagic = 12582912.0F;  // 1.5 * 2^23
    return x + kMagic - kMagic;
}

/// How 24 values are rounded to integers of at most `limit`: x * inverse, then integer * scale.
struct Rounding {
    float inverse;
    float scale;
};

Rounding rounding_of(const float* x, float limit) {
    float largest = 0;
    float sum = 0;  // finds what is not finite: a maximum would step over NaN
    for (size_t i = 0; i < kCols; ++i) {
        const float size = std::fabs(x[i]);
        largest = size > largest ? size : largest;
        sum += size;
    }
    const float inverse = largest > 0 ? limit / largest : 0.0F;
    // The reciprocal of a very small number overflows: such a block is zero.
    const bool usable = sum - sum == 0 && inverse - inverse == 0;
    return usable ? Rounding{inverse, largest / limit} : Rounding{0, sum - sum};
}

int32_t round_value(float x, const Rounding& rounding) {
    return rounding.inverse == 0 ? 0 : static_cast<int32_t>(round_to_integer(x * rounding.inverse));
}

void quantise(const float* x, Activation* out) {
    const Rounding rounding = rounding_of(x, 127);
    int32_t total = 0;
    for (size_t i = 0; i < kCols; ++i) {
        const int32_t a = round_value(x[i], rounding);
        out->a[i] = static_cast<int8_t>(a);
        total += a;
    }
    out->scale = rounding.scale;
    out->minus_7_sums = -7 * total;
    out->minus_6_sums = -6 * total;
}

void quantise_side(const float* x, SideActivation* out) {
    const Rounding rounding = rounding_of(x, 32767);
    for (size_t i = 0; i < kCols; ++i) {
        out->a[side_position(i)] = static_cast<int16_t>(round_value(x[i], rounding));
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

/// acc[r] += factor[r] * Σ_c weights[c][r] x[c], for each token.
void accumulate(const float* weights, const float* factor, const float* x, size_t tokens, float* acc) {
    for (size_t t = 0; t < tokens; ++t) {
        float sum[kRows] = {};
        for (size_t column = 0; column < kCols; ++column) {
            const float value = x[kCols * t + column];
            for (size_t row = 0; row < kRows; ++row) {
                sum[row] += weights[column * kRows + row] * value;
            }
        }
        for (size_t row = 0; row < kRows; ++row) {
            acc[kRows * t + row] += factor[row] * sum[row];
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
