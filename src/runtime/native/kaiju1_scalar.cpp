// KAIJU1 products without vector instructions: the meaning of the others, and a full peer.
#include "runtime/native/kaiju1_portable-inl.h"
#include "runtime/native/packed_scalar-inl.h"

namespace kaiju::runtime::kaiju1_kernels {

namespace {

using packed::accumulate_integers;
using packed::decode_to_bytes;

void multiply_tile(const View& w, size_t group, const unsigned char* x, size_t tokens, float* y,
                   size_t stride) {
    int8_t weights[kCols * kRows];
    float side[kTile * kRows] = {};
    float bulk[kTile * kRows] = {};
    float factor[kRows];
    for (float& one : factor) {
        one = 1;
    }
    const uint8_t* block = w.groups + group * w.group_bytes;
    const auto* side_x = reinterpret_cast<const SideActivation*>(x);
    for (size_t b = 0; b < w.side_blocks; ++b, block += kSideBytes, side_x += tokens) {
        decode_to_bytes([&](float* out) { decode_side_block(block, out); }, weights);
        accumulate_integers(weights, factor, side_x, tokens, side_position, side);
    }
    const auto* bulk_x = reinterpret_cast<const Activation*>(side_x);
    for (size_t b = 0; b < w.blocks; ++b, block += kBlockBytes, bulk_x += tokens) {
        decode_to_bytes([&](float* out) { decode_block(block, out); }, weights);
        for (size_t row = 0; row < kRows; ++row) {
            factor[row] = w.multipliers[block[144 + row] & 15];
        }
        accumulate_integers(
            weights, factor, bulk_x, tokens, [](size_t column) { return column; }, bulk);
    }
    const float* scales = w.scales + 2 * kRows * group;
    const size_t rows = w.rows - kRows * group < kRows ? w.rows - kRows * group : kRows;
    for (size_t t = 0; t < tokens; ++t) {
        for (size_t row = 0; row < rows; ++row) {
            y[t * stride + kRows * group + row] =
                std::fma(bulk[kRows * t + row], scales[row], side[kRows * t + row] * scales[kRows + row]);
        }
    }
}

void multiply(const View& w, size_t first, size_t last, const unsigned char* x, size_t tokens, float* y,
              size_t stride) {
    for (size_t tile = 0; tile < tokens; tile += kTile) {
        const size_t count = tokens - tile < kTile ? tokens - tile : kTile;
        for (size_t group = first; group < last; ++group) {
            multiply_tile(w, group, x + tile * token_bytes(w), count, y + tile * stride, stride);
        }
    }
}

}  // namespace

const Kernels kScalar = {"scalar", quantise, quantise_side, multiply, multiply_f32};

}  // namespace kaiju::runtime::kaiju1_kernels
