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

/// Whether the nearest z of coordinate y, in its coset, lies outside -1..1.
bool is_clamped(const lattice::CodebookWord& word, size_t i, float y) {
    const double target = word.flip ? -static_cast<double>(y) : y;
    const int base = word.m + 2 * static_cast<int>(lattice::kGolay[word.word] >> i & 1);
    return std::fabs((target - base) / 4) > 1.5;
}

}  // namespace

const V1Constants& v1_constants() {
    static const V1Constants constants = [] {
        // Powers of 2^(1/8); the roots are written out since a library function could round them differently.
        constexpr std::array<double, 8> kRoots = {1.0,
                                                  1.0905077326652577,
                                                  1.189207115002721,
                                                  1.2968395546510096,
                                                  1.4142135623730951,
                                                  1.5422108254079407,
                                                  1.681792830507429,
                                                  1.8340080864093424};
        V1Constants c{.rms_per_step = 3.0, .row_rms_per_scale = 3.0, .multipliers = {}};
        for (size_t i = 0; i < kMultipliers; ++i) {
            c.multipliers[i] = static_cast<float>(std::ldexp(kRoots[i % 8], static_cast<int>(i / 8) - 1));
        }
        return c;
    }();
    return constants;
}

EncoderV1::EncoderV1(const kaiju1::Layout& layout, std::span<const float> importance,
                     const lattice::CodebookSearch& search, const V1Constants& constants)
    : layout_(layout),
      importance_(importance.begin(), importance.end()),
      columns_(layout.cols),
      search_(search),
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
    return kaiju1::make_head(layout_, constants_.multipliers,
                             {columns_.begin(), columns_.begin() + layout_.n_hi});
}

void EncoderV1::encode_rows(const float* weights, size_t count, std::byte* records,
                            EncodeStats* stats) const {
    auto* record = reinterpret_cast<uint8_t*>(records);
    const size_t n_blocks = layout_.n_blocks;
    std::vector<float> y(count * n_blocks * kBlock);
    std::vector<lattice::CodebookWord> nearest(count * n_blocks);
    for (size_t r = 0; r < count; ++r) {
        const float* const row = weights + r * layout_.cols;
        encode_side_band(row, record + r * layout_.row_bytes(), stats[r]);
        choose_steps(row, record + r * layout_.row_bytes(), y.data() + r * n_blocks * kBlock, stats[r]);
    }
    search_.nearest(y, nearest);  // one call for all rows: searches are fastest on large batches
    for (size_t r = 0; r < count; ++r) {
        encode_blocks(weights + r * layout_.cols, y.data() + r * n_blocks * kBlock,
                      nearest.data() + r * n_blocks, record + r * layout_.row_bytes(), stats[r]);
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
        // The suggested step over row_scale, squared: squares spare a root, and the geometric mean of two
        // multipliers, where the nearer one in ratio changes, is their product.
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

void EncoderV1::encode_blocks(const float* row, const float* y, const lattice::CodebookWord* nearest,
                              uint8_t* record, EncodeStats& stats) const {
    const kaiju1::RowFields fields(record, layout_);
    const double row_scale = load<float>(fields.scales);
    const uint32_t* const bulk = columns_.data() + layout_.n_hi;
    for (uint32_t block = 0; block < layout_.n_blocks; ++block) {
        const float* const target = y + kBlock * block;
        const lattice::CodebookWord& best = nearest[block];
        uint64_t clamped = 0;
        for (size_t i = 0; i < kBlock; ++i) {
            clamped += is_clamped(best, i, target[i]);
        }
        ++stats.blocks;
        stats.clamped_blocks += clamped > 0;
        stats.clamped_trits += clamped;
        const kaiju1::Code code = kaiju1::pack(
            {.word = best.word, .m = best.m, .flip = best.flip, .watermark = false, .z = best.z});
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
