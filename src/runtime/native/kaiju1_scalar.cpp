// KAIJU1 products without vector instructions: the meaning of the others, and a full peer.
#include "runtime/native/kaiju1_portable-inl.h"

namespace kaiju::runtime::kaiju1_kernels {

namespace {

/// The 24 x 16 integers C of a block, column by column, exact in 8 bits.
template <typename Decode>
void decode_to_bytes(Decode decode, const uint8_t* block, int8_t* out) {
    float values[kCols * kRows];
    decode(block, values);
    for (size_t i = 0; i < kCols * kRows; ++i) {
        out[i] = static_cast<int8_t>(values[i]);
    }
}

/// acc[r] = fma(scale Σ_c C[c][r] a[c], factor[r], acc[r]) for each token; the sum is exact.
void accumulate_integers(const int8_t* weights, const float* factor, const Activation* x, size_t tokens,
                         float* acc) {
    for (size_t t = 0; t < tokens; ++t) {
        int32_t sum[kRows] = {};
        for (size_t column = 0; column < kCols; ++column) {
            const int32_t a = x[t].a[column];
            for (size_t row = 0; row < kRows; ++row) {
                sum[row] += weights[column * kRows + row] * a;
            }
        }
        for (size_t row = 0; row < kRows; ++row) {
            float& total = acc[kRows * t + row];
            total = std::fma(static_cast<float>(sum[row]) * x[t].scale, factor[row], total);
        }
    }
}

void multiply(const View& w, size_t first, size_t last, const Activation* x, size_t tokens, float* y,
              size_t stride) {
    const size_t all_blocks = w.side_blocks + w.blocks;
    int8_t weights[kCols * kRows];
    float side[kTile * kRows];
    float bulk[kTile * kRows];
    float factor[kRows];
    for (size_t tile = 0; tile < tokens; tile += kTile) {
        const size_t count = tokens - tile < kTile ? tokens - tile : kTile;
        for (size_t group = first; group < last; ++group) {
            const uint8_t* block = w.groups + group * w.group_bytes;
            const Activation* at = x + tile * all_blocks;
            std::memset(side, 0, sizeof(side));
            std::memset(bulk, 0, sizeof(bulk));
            for (float& one : factor) {
                one = 1;
            }
            for (size_t b = 0; b < w.side_blocks; ++b, block += kSideBytes, at += count) {
                decode_to_bytes(decode_side_block, block, weights);
                accumulate_integers(weights, factor, at, count, side);
            }
            for (size_t b = 0; b < w.blocks; ++b, block += kBlockBytes, at += count) {
                decode_to_bytes(decode_block, block, weights);
                for (size_t row = 0; row < kRows; ++row) {
                    factor[row] = w.multipliers[block[144 + row] & 15];
                }
                accumulate_integers(weights, factor, at, count, bulk);
            }
            const float* scales = w.scales + 2 * kRows * group;
            const size_t rows = w.rows - kRows * group < kRows ? w.rows - kRows * group : kRows;
            for (size_t t = 0; t < count; ++t) {
                for (size_t row = 0; row < rows; ++row) {
                    y[(tile + t) * stride + kRows * group + row] = std::fma(
                        bulk[kRows * t + row], scales[row], side[kRows * t + row] * scales[kRows + row]);
                }
            }
        }
    }
}

}  // namespace

const Kernels kScalar = {"scalar", quantise, multiply, multiply_f32};

}  // namespace kaiju::runtime::kaiju1_kernels
