// What every instruction set's file compiles for itself, in plain C++. All of it has internal linkage: the
// linker must not take one file's copy, with its instructions, for all.
#include "runtime/native/kaiju4_kernels.h"
#include "runtime/native/packed_portable-inl.h"

namespace kaiju::runtime::kaiju4_kernels {
namespace {

void quantise(const float* x, Activation* out) {
    packed::quantise(x, kOffsets, out);
}

/// H x of n values, n at most kLargestSpan, without the factor; `x` is overwritten. The same step again and
/// again, which loads and stores whole vectors whatever the distance of a butterfly: it transforms the top
/// bit of the index and makes it the lowest, so that after all steps every bit is back in its place.
constexpr size_t kLargestSpan = 512;

void hadamard(float* x, size_t n, float* out) {
    float other[kLargestSpan];
    float* from = x;
    float* to = other;
    for (size_t step = 1; step < n; step *= 2) {
        for (size_t i = 0; i < n / 2; ++i) {
            const float a = from[i];
            const float b = from[i + n / 2];
            to[2 * i] = a + b;
            to[2 * i + 1] = a - b;
        }
        float* const next = from;
        from = to;
        to = next;
    }
    const float scale = 1 / std::sqrt(static_cast<float>(n));
    for (size_t i = 0; i < n; ++i) {
        out[i] = from[i] * scale;
    }
}

void rotate(const float* x, const float* signs, size_t count, size_t span, float* out) {
    float signed_x[kLargestSpan];
    for (size_t begin = 0; begin < count; begin += span) {
        for (size_t i = 0; i < span; ++i) {
            signed_x[i] = x[begin + i] * signs[begin + i];
        }
        hadamard(signed_x, span, out + begin);
    }
}

template <typename Integer>
inline Integer load_as(const uint8_t* at) {
    Integer value = 0;
    std::memcpy(&value, at, sizeof(value));
    return value;
}

/// Where a block lies in the three planes of its group.
struct Planes {
    const uint8_t* nibbles;
    const uint8_t* bits;
    const uint8_t* heads;

    Planes(const View& w, size_t group)
        : nibbles(w.groups + group * w.group_bytes),
          bits(nibbles + bits_at(w)),
          heads(nibbles + heads_at(w)) {}

    void advance() {
        nibbles += kNibbleBytes;
        bits += kBitBytes;
        heads += kHeadBytes;
    }
    /// Row r's m at bit r, and the index of its multiplier at bits 2r, 2r + 1.
    [[nodiscard]] uint16_t odd() const { return load_as<uint16_t>(heads + 4); }
    [[nodiscard]] uint32_t indices() const { return load_as<uint32_t>(heads); }
};

/// The 24 x 16 integers f x of a block as f32, column by column.
void decode_block(const Planes& block, bool five_bits, float* out) {
    for (size_t j = 0; j < kQuads; ++j) {
        for (size_t lane = 0; lane < 4 * kRows; ++lane) {
            const size_t row = lane / 4;
            const int m = block.odd() >> row & 1;
            const int nibble = block.nibbles[64 * (j / 2) + lane] >> (4 * (j % 2)) & 15;
            const int fifth = five_bits ? block.bits[8 * j + lane / 8] >> (lane % 8) & 1 : 0;
            const int value = five_bits ? 8 * (nibble + 16 * fifth) + 4 * m : 16 * nibble + 8 * m;
            out[(4 * j + lane % 4) * kRows + row] = static_cast<float>(value - 128);
        }
    }
}

void multiply_f32(const View& w, size_t first, size_t last, const float* x, size_t tokens, float* y,
                  size_t stride) {
    float weights[kCols * kRows];
    float acc[kTile * kRows];
    for (size_t tile = 0; tile < tokens; tile += kTile) {
        const size_t count = tokens - tile < kTile ? tokens - tile : kTile;
        for (size_t group = first; group < last; ++group) {
            const float* const scales = w.scales + kRows * group;
            Planes block(w, group);
            const float* values = x + tile * w.blocks * kCols;
            std::memset(acc, 0, sizeof(acc));
            for (size_t b = 0; b < w.blocks; ++b, block.advance(), values += count * kCols) {
                decode_block(block, w.five_bits, weights);
                const uint32_t indices = block.indices();
                float step[kRows];
                for (size_t row = 0; row < kRows; ++row) {
                    step[row] = scales[row] * w.multipliers[indices >> (2 * row) & 3];
                }
                packed::accumulate(weights, step, values, count, acc);
            }
            const size_t rows = w.rows - kRows * group < kRows ? w.rows - kRows * group : kRows;
            for (size_t t = 0; t < count; ++t) {
                std::memcpy(y + (tile + t) * stride + kRows * group, acc + kRows * t, rows * sizeof(float));
            }
        }
    }
}

}  // namespace
}  // namespace kaiju::runtime::kaiju4_kernels
