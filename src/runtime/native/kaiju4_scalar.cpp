// KAIJU4 products without vector instructions: the meaning of the others, and a full peer.
#include "runtime/native/kaiju4_portable-inl.h"
#include "runtime/native/packed_scalar-inl.h"

namespace kaiju::runtime::kaiju4_kernels {

namespace {

void multiply_tile(const View& w, size_t group, const Activation* x, size_t tokens, float* y, size_t stride) {
    int8_t weights[kCols * kRows];
    float acc[kTile * kRows] = {};
    float factor[kRows];
    Planes block(w, group);
    for (size_t b = 0; b < w.blocks; ++b, block.advance(), x += tokens) {
        packed::decode_to_bytes([&](float* out) { decode_block(block, w.five_bits, out); }, weights);
        const uint32_t indices = block.indices();
        for (size_t row = 0; row < kRows; ++row) {
            factor[row] = w.multipliers[indices >> (2 * row) & 3];
        }
        packed::accumulate_integers(
            weights, factor, x, tokens, [](size_t column) { return column; }, acc);
    }
    const size_t rows = w.rows - kRows * group < kRows ? w.rows - kRows * group : kRows;
    for (size_t t = 0; t < tokens; ++t) {
        for (size_t row = 0; row < rows; ++row) {
            y[t * stride + kRows * group + row] = acc[kRows * t + row] * w.scales[kRows * group + row];
        }
    }
}

void multiply(const View& w, size_t first, size_t last, const Activation* x, size_t tokens, float* y,
              size_t stride) {
    for (size_t tile = 0; tile < tokens; tile += kTile) {
        const size_t count = tokens - tile < kTile ? tokens - tile : kTile;
        for (size_t group = first; group < last; ++group) {
            multiply_tile(w, group, x + tile * w.blocks, count, y + tile * stride, stride);
        }
    }
}

}  // namespace

const Kernels kScalar = {"scalar", rotate, quantise, multiply, multiply_f32};

}  // namespace kaiju::runtime::kaiju4_kernels
