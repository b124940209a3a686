#include "codec/encoder_v1.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lattice/golay.h"

namespace kaiju::codec {

using kaiju1::kBlock;
using kaiju1::kMultipliers;

namespace {

constexpr double kLargestHi = 127;

/// One way to store a point: the trits of x = s (m + 2c + 4z) with one sign, clamped to -1..1.
struct Clamped {
    kaiju1::Block block;
    int clamped = 0;    ///< trits that had to move
    double error = 0;   ///< squared distance from y to what will be decoded, in steps
};

// -x lies in the coset of the same m, with the word c (m = 0) or its complement (m = 1): -(2c + 4q) = 2c + 4(-c - q)
// and -(1 + 2c + 4q) = 1 + 2(1 - c) + 4(-1 - q). The complement of a word has the complemented index, since the code
// contains the all-ones word and indices are twelve bits of the word.
Clamped store_with_sign(const lattice::Nearest& nearest, const float* y, bool flip) {
    Clamped stored;
    const bool complement = flip && nearest.m == 1;
    stored.block.m = nearest.m;
    stored.block.flip = flip;
    stored.block.word = static_cast<uint16_t>(complement ? 4095 - nearest.word : nearest.word);
    const uint32_t bits = lattice::kGolay[stored.block.word];
    const int sign = flip ? -1 : 1;
    for (size_t i = 0; i < kBlock; ++i) {
        const int base = nearest.m + 2 * static_cast<int>(bits >> i & 1);
        const int z = (sign * nearest.x[i] - base) / 4;  // exact
        const int trit = std::clamp(z, -1, 1);
        stored.clamped += trit != z;
        stored.block.z[i] = static_cast<int8_t>(trit);
        const double delta = static_cast<double>(y[i]) - sign * (base + 4 * trit);
        stored.error += delta * delta;
    }
    return stored;
}

}  // namespace

const V1Constants& v1_constants() {
    static const V1Constants constants = [] {
        // Powers of 2^(1/4); the roots are written out since a library function could round them differently.
        constexpr std::array<double, 4> kRoots = {1.0, 1.189207115002721, 1.4142135623730951, 1.681792830507429};
        V1Constants c{.rms_per_step = 2.5, .row_rms_per_scale = 2.5, .multipliers = {}};
        for (size_t i = 0; i < kMultipliers; ++i) {
            c.multipliers[i] = static_cast<float>(std::ldexp(kRoots[i % 4], static_cast<int>(i / 4) - 2));
        }
        return c;
    }();
    return constants;
}

EncoderV1::EncoderV1(const kaiju1::Layout& layout, std::span<const float> importance,
                     const lattice::Decoder& decoder, const V1Constants& constants)
    : layout_(layout),
      importance_(importance.begin(), importance.end()),
      columns_(layout.cols),
      decoder_(decoder),
      constants_(constants) {
    if (importance.size() != layout.cols) {
        throw Error(ErrorCode::bad_input,
                    fmt::format("{} importance entries for {} columns", importance.size(), layout.cols));
    }
    for (size_t i = 0; i < importance.size(); ++i) {
        if (!std::isfinite(importance[i]) || importance[i] < 0) {
            throw Error(ErrorCode::bad_input, fmt::format("importance of column {} is {}", i, importance[i]));
        }
    }
    std::iota(columns_.begin(), columns_.end(), 0U);
    std::stable_sort(columns_.begin(), columns_.end(),
                     [&](uint32_t a, uint32_t b) { return importance_[a] > importance_[b]; });
    std::sort(columns_.begin(), columns_.begin() + layout.n_hi);
    std::sort(columns_.begin() + layout.n_hi, columns_.end());
    for (size_t i = 0; i + 1 < kMultipliers; ++i) {
        thresholds_[i] = static_cast<double>(constants.multipliers[i]) * constants.multipliers[i + 1];
    }
}

std::vector<std::byte> EncoderV1::head() const {
    return kaiju1::make_head(layout_, constants_.multipliers, {columns_.begin(), columns_.begin() + layout_.n_hi});
}

void EncoderV1::encode_rows(const float* weights, size_t count, std::byte* records, EncodeStats* stats) const {
    auto* record = reinterpret_cast<uint8_t*>(records);
    const size_t n_blocks = layout_.n_blocks;
    std::vector<float> y(count * n_blocks * kBlock);
    std::vector<lattice::Nearest> nearest(count * n_blocks);
    for (size_t r = 0; r < count; ++r) {
        const float* const row = weights + r * layout_.cols;
        encode_side_band(row, record + r * layout_.row_bytes(), stats[r]);
        choose_steps(row, record + r * layout_.row_bytes(), y.data() + r * n_blocks * kBlock, stats[r]);
    }
    decoder_.nearest(y, nearest);  // one call for all rows: decoders are fastest on large batches
    for (size_t r = 0; r < count; ++r) {
        encode_blocks(weights + r * layout_.cols, y.data() + r * n_blocks * kBlock, nearest.data() + r * n_blocks,
                      record + r * layout_.row_bytes(), stats[r]);
    }
}

void EncoderV1::encode_side_band(const float* row, uint8_t* record, EncodeStats& stats) const {
    const kaiju1::RowFields fields(record, layout_);
    float largest = 0;
    for (uint32_t i = 0; i < layout_.n_hi; ++i) {
        largest = std::max(largest, std::fabs(row[columns_[i]]));
    }
    const auto scale = static_cast<float>(largest / kLargestHi);
    store(fields.scales + 4, scale);
    for (uint32_t i = 0; i < layout_.n_hi; ++i) {
        const double w = row[columns_[i]];
        const double h = importance_[columns_[i]];
        const double rounded = scale > 0 ? std::nearbyint(w / scale) : 0;
        const auto integer = static_cast<int8_t>(std::clamp(rounded, -kLargestHi, kLargestHi));
        store(fields.hi + i, integer);
        const double delta = static_cast<double>(scale) * integer - w;
        stats.diagonal_excess += h * delta * delta;
        stats.diagonal_energy += h * w * w;
    }
}

void EncoderV1::choose_steps(const float* row, uint8_t* record, float* y, EncodeStats& stats) const {
    const kaiju1::RowFields fields(record, layout_);
    std::fill_n(fields.nibbles, layout_.nibble_bytes(), uint8_t{0});
    const uint32_t* const bulk = columns_.data() + layout_.n_hi;
    std::vector<double> power(layout_.n_blocks, 0.0);
    double total = 0;
    for (uint32_t block = 0; block < layout_.n_blocks; ++block) {
        for (size_t i = 0; i < kBlock; ++i) {
            const double w = row[bulk[kBlock * block + i]];
            power[block] += w * w;
        }
        total += power[block];
    }
    const double bulk_weights = std::max<double>(1, static_cast<double>(layout_.n_blocks) * kBlock);
    const auto row_scale = static_cast<float>(std::sqrt(total / bulk_weights) / constants_.row_rms_per_scale);
    store(fields.scales, row_scale);
    for (uint32_t block = 0; block < layout_.n_blocks; ++block) {
        // The suggested step over row_scale, squared: squares spare a root, and the geometric mean of two multipliers,
        // where the nearer one in ratio changes, is their product.
        const double suggested = constants_.rms_per_step * static_cast<double>(row_scale);
        const double ratio = row_scale > 0 ? power[block] / kBlock / (suggested * suggested) : 0;
        const auto q = static_cast<size_t>(std::upper_bound(thresholds_.begin(), thresholds_.end(), ratio) -
                                           thresholds_.begin());
        fields.nibbles[block / 2] |= static_cast<uint8_t>(q << (4 * (block & 1)));
        ++stats.multipliers[q];
        const double step = static_cast<double>(row_scale) * constants_.multipliers[q];
        for (size_t i = 0; i < kBlock; ++i) {
            const double w = row[bulk[kBlock * block + i]];
            y[kBlock * block + i] = step > 0 ? static_cast<float>(w / step) : 0.0F;
        }
    }
}

void EncoderV1::encode_blocks(const float* row, const float* y, const lattice::Nearest* nearest, uint8_t* record,
                              EncodeStats& stats) const {
    const kaiju1::RowFields fields(record, layout_);
    const double row_scale = load<float>(fields.scales);
    const uint32_t* const bulk = columns_.data() + layout_.n_hi;
    for (uint32_t block = 0; block < layout_.n_blocks; ++block) {
        const float* const target = y + kBlock * block;
        Clamped best = store_with_sign(nearest[block], target, false);
        if (best.clamped > 0) {
            const Clamped flipped = store_with_sign(nearest[block], target, true);
            if (flipped.clamped < best.clamped ||
                (flipped.clamped == best.clamped && flipped.error < best.error)) {
                best = flipped;
            }
        }
        ++stats.blocks;
        stats.clamped_blocks += best.clamped > 0;
        stats.clamped_trits += static_cast<uint64_t>(best.clamped);
        const kaiju1::Code code = kaiju1::pack(best.block);
        std::copy(code.begin(), code.end(), fields.codes + kaiju1::kCodeBytes * block);

        const int q = fields.nibbles[block / 2] >> (4 * (block & 1)) & 15;
        const double step = row_scale * constants_.multipliers[static_cast<size_t>(q)];
        std::array<int8_t, kBlock> integers;
        kaiju1::decode_block(code.data(), integers.data());
        for (size_t i = 0; i < kBlock; ++i) {
            const uint32_t column = bulk[kBlock * block + i];
            const double w = row[column];
            const double delta = step * integers[i] - w;
            stats.diagonal_excess += importance_[column] * delta * delta;
            stats.diagonal_energy += importance_[column] * w * w;
        }
    }
}

}  // namespace kaiju::codec
