#include "runtime/native/kaiju1_matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/parallel.h"
#include "codec/kaiju1.h"
#include "lattice/golay.h"
#include "runtime/native/kernel_sets.h"

namespace kaiju::runtime {

namespace kernels = kaiju1_kernels;
namespace wire = codec::kaiju1;

namespace {

/// Four bits of a Golay word as four bytes.
constexpr auto kSpread = [] {
    std::array<uint32_t, 16> table{};
    for (uint32_t bits = 0; bits < 16; ++bits) {
        for (uint32_t i = 0; i < 4; ++i) {
            table[bits] |= (bits >> i & 1) << (8 * i);
        }
    }
    return table;
}();

/// The digits t of a trit byte, five bytes; rows above 242 stay 0 and are refused before.
constexpr auto kTrits = [] {
    std::array<uint64_t, 256> table{};
    for (uint32_t byte = 0; byte < 243; ++byte) {
        uint32_t rest = byte;
        for (uint32_t i = 0; i < 5; ++i, rest /= 3) {
            table[byte] |= uint64_t{rest % 3} << (8 * i);
        }
    }
    return table;
}();

/// The w of a block (kaiju1_kernels.h), four to a word, and its n.
struct Levels {
    std::array<uint32_t, kernels::kQuads> w;
    uint8_t n;
};

Levels levels_of(const uint8_t* code) {
    constexpr uint32_t kBytes = 0x01010101;
    const uint32_t m = code[0] & 1;
    const bool flip = (code[1] & 0x80) != 0;
    const uint32_t word = lattice::kGolay[static_cast<size_t>((code[0] >> 1) | (code[1] & 0x1F) << 7)];
    std::array<uint8_t, 28> trits{};
    for (size_t i = 0; i < 5; ++i) {
        std::memcpy(trits.data() + 5 * i, &kTrits[code[2 + i]], i < 4 ? 8 : 4);
    }
    Levels levels{.w = {}, .n = static_cast<uint8_t>(1 - m)};
    for (size_t j = 0; j < kernels::kQuads; ++j) {
        uint32_t t = 0;  // z + 1
        std::memcpy(&t, trits.data() + 4 * j, sizeof(t));
        const uint32_t c_2t = kSpread[word >> (4 * j) & 15] + 2 * t;
        // No byte borrows or carries: c + 2t is 0..5.
        levels.w[j] = flip ? 5 * kBytes - c_2t : c_2t + (m + 1) * kBytes;
    }
    return levels;
}

void pack_block(const Levels& levels, uint8_t multiplier, size_t row, uint8_t* block) {
    const auto& w = levels.w;
    constexpr uint32_t kUpper = 0x03030303;
    constexpr uint32_t kLower = 0x01010101;
    const uint32_t x0 = w[0] | w[1] << 3 | (w[4] >> 1 & kUpper) << 6;
    const uint32_t x1 = w[2] | w[3] << 3 | (w[5] >> 1 & kUpper) << 6;
    std::memcpy(block + 4 * row, &x0, sizeof(x0));
    std::memcpy(block + 64 + 4 * row, &x1, sizeof(x1));
    // Lane 4 row + k = 32 h + 8 g + i.
    const size_t in_half = row % 8;
    uint8_t* const low_at = block + 128 + 8 * (row / 8) + 4 * (in_half % 2);
    const uint32_t low = ((w[4] & kLower) | (w[5] & kLower) << 1) << (2 * (in_half / 2));
    uint32_t merged = 0;
    std::memcpy(&merged, low_at, sizeof(merged));
    merged |= low;
    std::memcpy(low_at, &merged, sizeof(merged));
    block[144 + row] = static_cast<uint8_t>(multiplier | levels.n << 7);
}

/// Throws unless every weight of the row is finite in f32.
void check_scales(float row_scale, float hi_scale, float largest_multiplier) {
    constexpr float kLargestC = 7;
    constexpr float kLargestSide = 128;
    if (!(row_scale >= 0) || !(hi_scale >= 0) || !std::isfinite(row_scale * largest_multiplier * kLargestC) ||
        !std::isfinite(hi_scale * kLargestSide)) {
        throw Error(ErrorCode::bad_input,
                    fmt::format("scales {} and {} must be finite and not negative, and so must the weights",
                                row_scale, hi_scale));
    }
}

/// Writes one row into its place in its group.
void pack_row(const wire::TensorView& source, uint64_t row, const kernels::View& view, uint8_t* group,
              float* scales) {
    const auto& layout = source.layout();
    const auto fields = source.row(row);
    const size_t in_group = row % kernels::kRows;
    const auto row_scale = load<float>(fields.scales);
    const auto hi_scale = load<float>(fields.scales + 4);
    check_scales(row_scale, hi_scale, source.multipliers().back());
    scales[in_group] = row_scale;
    scales[kernels::kRows + in_group] = hi_scale;
    for (size_t column = 0; column < layout.n_hi; ++column) {
        group[64 * (column / 4) + 4 * in_group + column % 4] = fields.hi[column];
    }
    uint8_t* block = group + view.side_blocks * kernels::kSideBytes;
    for (size_t b = 0; b < layout.n_blocks; ++b, block += kernels::kBlockBytes) {
        const uint8_t* const code = fields.codes + wire::kCodeBytes * b;
        if (!wire::valid_trits(code)) {
            throw Error(ErrorCode::bad_input, fmt::format("block {}: invalid trit byte", b));
        }
        const auto multiplier = static_cast<uint8_t>(fields.nibbles[b / 2] >> (4 * (b & 1)) & 15);
        pack_block(levels_of(code), multiplier, in_group, block);
    }
}

}  // namespace

std::span<const kernels::Kernels* const> available_kaiju1_kernels() {
    static constexpr std::array kAll = {
        &kernels::kScalar,
#ifdef KAIJU_X86_KERNELS
        &kernels::kAvx2,
        &kernels::kAvx512Vnni,
#endif
    };
    return std::span(kAll).first(available_kernel_sets());
}

const kernels::Kernels& chosen_kaiju1_kernels() {
    return *available_kaiju1_kernels()[allowed_kernel_sets() - 1];
}

Kaiju1Matrix::Kaiju1Matrix(Bytes payload, Activations activations, int threads,
                           const kernels::Kernels& chosen)
    : kernels_(&chosen), activations_(activations) {
    const wire::TensorView source(payload);
    const auto& layout = source.layout();
    cols_ = layout.cols;
    multipliers_ = source.multipliers();
    view_.rows = layout.rows;
    view_.side_blocks = (layout.n_hi + kernels::kCols - 1) / kernels::kCols;
    view_.blocks = layout.n_blocks;
    view_.group_bytes = view_.side_blocks * kernels::kSideBytes + view_.blocks * kernels::kBlockBytes;
    const size_t groups = (layout.rows + kernels::kRows - 1) / kernels::kRows;
    groups_.resize(checked_mul(groups, view_.group_bytes, "packed weights"));
    scales_.resize(2 * kernels::kRows * groups);

    columns_.assign(source.columns().begin(), source.columns().begin() + layout.n_hi);
    columns_.resize(view_.side_blocks * kernels::kCols, layout.cols);
    columns_.insert(columns_.end(), source.columns().begin() + layout.n_hi, source.columns().end());

    view_.groups = groups_.data();
    view_.scales = scales_.data();
    view_.multipliers = multipliers_.data();
    parallel_for(groups, 1, threads, [&](size_t begin, size_t end) {
        for (size_t group = begin; group < end; ++group) {
            const uint64_t first = group * kernels::kRows;
            const uint64_t last = std::min<uint64_t>(first + kernels::kRows, layout.rows);
            for (uint64_t row = first; row < last; ++row) {
                try {
                    pack_row(source, row, view_, groups_.data() + group * view_.group_bytes,
                             scales_.data() + 2 * kernels::kRows * group);
                } catch (Error& error) {
                    error.within(fmt::format("KAIJU1 payload: row {}", row));
                    throw;
                }
            }
        }
    });
}

size_t Kaiju1Matrix::bytes() const {
    return groups_.size() + scales_.size() * sizeof(float) + columns_.size() * sizeof(uint32_t);
}

size_t Kaiju1Matrix::prepared_bytes(size_t tokens) const {
    return tokens * (activations_ == Activations::int8
                         ? kernels::token_bytes(view_)
                         : (view_.side_blocks + view_.blocks) * kernels::kCols * sizeof(float));
}

bool Kaiju1Matrix::shares_preparation(const PackedMatrix& other) const {
    const auto* same = dynamic_cast<const Kaiju1Matrix*>(&other);
    return same != nullptr && activations_ == same->activations_ && columns_ == same->columns_;
}

void Kaiju1Matrix::prepare(const float* x, size_t stride, size_t tokens, std::byte* out, int ith,
                           int nth) const {
    const size_t blocks = view_.side_blocks + view_.blocks;
    const Share share(blocks * tokens, ith, nth);
    // Units lie tile by tile, in a tile block by block, in a block token by token.
    for (size_t unit = share.begin; unit < share.end; ++unit) {
        const size_t tile = unit / (kernels::kTile * blocks) * kernels::kTile;
        const size_t count = std::min(kernels::kTile, tokens - tile);
        const size_t in_tile = unit - tile * blocks;
        const size_t block = in_tile / count;
        const float* const row = x + (tile + in_tile % count) * stride;
        const uint32_t* const columns = columns_.data() + block * kernels::kCols;
        std::array<float, kernels::kCols> values;
        for (size_t i = 0; i < kernels::kCols; ++i) {
            values[i] = columns[i] < cols_ ? row[columns[i]] : 0.0F;
        }
        const size_t in_side = std::min(in_tile, view_.side_blocks * count);
        std::byte* const tile_at = out + prepared_bytes(tile);
        if (activations_ == Activations::f32) {
            std::memcpy(tile_at + in_tile * sizeof(values), values.data(), sizeof(values));
        } else if (block < view_.side_blocks) {
            kernels_->quantise_side(values.data(),
                                    reinterpret_cast<kernels::SideActivation*>(tile_at) + in_tile);
        } else {
            auto* const bulk =
                reinterpret_cast<kernels::Activation*>(tile_at + in_side * sizeof(kernels::SideActivation));
            kernels_->quantise(values.data(), bulk + (in_tile - in_side));
        }
    }
}

void Kaiju1Matrix::multiply(const std::byte* prepared, size_t tokens, float* y, size_t stride, int ith,
                            int nth) const {
    const Share share((view_.rows + kernels::kRows - 1) / kernels::kRows, ith, nth);
    if (activations_ == Activations::int8) {
        kernels_->multiply(view_, share.begin, share.end, reinterpret_cast<const unsigned char*>(prepared),
                           tokens, y, stride);
    } else {
        kernels_->multiply_f32(view_, share.begin, share.end, reinterpret_cast<const float*>(prepared),
                               tokens, y, stride);
    }
}

}  // namespace kaiju::runtime
