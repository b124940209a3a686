#include "codec/row_encoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "lattice/golay.h"

namespace kaiju::codec {

using kaiju1::kBlock;
using kaiju1::kMultipliers;

namespace {

constexpr double kLargestHi = 127;

}  // namespace

void check_importance(std::span<const float> importance, uint64_t cols) {
    if (importance.size() != cols) {
        throw Error(
            ErrorCode::bad_input,
            fmt::format("{} importance entries for {} columns: they belong to another model or matrix",
                        importance.size(), cols));
    }
    for (size_t i = 0; i < importance.size(); ++i) {
        if (!std::isfinite(importance[i]) || importance[i] < 0) {
            throw Error(ErrorCode::bad_input, fmt::format("importance of column {} is {}", i, importance[i]));
        }
    }
    if (std::all_of(importance.begin(), importance.end(), [](float h) { return h == 0; })) {
        throw Error(ErrorCode::bad_input,
                    "all of the importance is zero: no calibration token reached the matrix; use more text, "
                    "or do not encode it");
    }
}

Kaiju1RowEncoder::Kaiju1RowEncoder(const kaiju1::Layout& layout, std::span<const float> importance)
    : layout_(layout), importance_(importance.begin(), importance.end()), columns_(layout.cols) {
    check_importance(importance, layout.cols);
}

void Kaiju1RowEncoder::order_columns(std::span<const double> score) {
    std::iota(columns_.begin(), columns_.end(), 0U);
    std::stable_sort(columns_.begin(), columns_.end(),
                     [&](uint32_t a, uint32_t b) { return score[a] > score[b]; });
    std::sort(columns_.begin(), columns_.begin() + layout_.n_hi);
    std::sort(columns_.begin() + layout_.n_hi, columns_.end());
}

void Kaiju1RowEncoder::order_bulk(std::span<const float> score) {
    std::stable_sort(columns_.begin() + layout_.n_hi, columns_.end(),
                     [&](uint32_t a, uint32_t b) { return score[a] > score[b]; });
}

void Kaiju1RowEncoder::encode_side_band(const float* row, uint8_t* record) const {
    const kaiju1::RowFields fields(record, layout_);
    float largest = 0;
    for (uint32_t i = 0; i < layout_.n_hi; ++i) {
        largest = std::max(largest, std::fabs(row[columns_[i]]));
    }
    const auto scale = static_cast<float>(largest / kLargestHi);
    store(fields.scales + 4, scale);
    for (uint32_t i = 0; i < layout_.n_hi; ++i) {
        const double w = row[columns_[i]];
        const double rounded = scale > 0 ? std::nearbyint(w / scale) : 0;
        store(fields.hi + i, static_cast<int8_t>(std::clamp(rounded, -kLargestHi, kLargestHi)));
    }
}

void Kaiju1RowEncoder::add_diagonal(const float* row, const uint8_t* record,
                                    const kaiju1::Multipliers& multipliers, EncodeStats& stats) const {
    const kaiju1::RowFields fields(record, layout_);
    const auto add = [&](uint32_t column, double value) {
        const double w = row[column];
        const double delta = value - w;
        stats.diagonal_excess += importance_[column] * delta * delta;
        stats.diagonal_energy += importance_[column] * w * w;
    };
    const double hi_scale = load<float>(fields.scales + 4);
    for (uint32_t i = 0; i < layout_.n_hi; ++i) {
        add(columns_[i], hi_scale * load<int8_t>(fields.hi + i));
    }
    const double row_scale = load<float>(fields.scales);
    for (uint32_t block = 0; block < layout_.n_blocks; ++block) {
        const int q = fields.nibbles[block / 2] >> (4 * (block & 1)) & 15;
        const double step = row_scale * multipliers[static_cast<size_t>(q)];
        std::array<int8_t, kBlock> integers;
        kaiju1::decode_block(fields.codes + kaiju1::kCodeBytes * block, integers.data());
        for (size_t i = 0; i < kBlock; ++i) {
            add(columns_[layout_.n_hi + kBlock * block + i], step * integers[i]);
        }
    }
}

bool is_clamped(const lattice::CodebookWord& word, size_t i, float y) {
    const double target = word.flip ? -static_cast<double>(y) : y;
    const int base = word.m + 2 * static_cast<int>(lattice::kGolay[word.word] >> i & 1);
    return std::fabs((target - base) / 4) > 1.5;
}

std::array<double, kMultipliers - 1> step_thresholds(const kaiju1::Multipliers& multipliers) {
    std::array<double, kMultipliers - 1> thresholds;
    for (size_t i = 0; i + 1 < kMultipliers; ++i) {
        thresholds[i] = static_cast<double>(multipliers[i]) * multipliers[i + 1];
    }
    return thresholds;
}

kaiju1::Multipliers powers_of_two(size_t per_octave, int first) {
    // Powers of 2^(1/24); written out since a library function could round them differently.
    constexpr size_t kParts = 24;
    constexpr std::array<double, kParts> kRoots = {1.0,
                                                   1.029302236643492,
                                                   1.0594630943592953,
                                                   1.0905077326652577,
                                                   1.122462048309373,
                                                   1.155352696872273,
                                                   1.189207115002721,
                                                   1.2240535433046553,
                                                   1.2599210498948732,
                                                   1.2968395546510096,
                                                   1.3348398541700344,
                                                   1.3739536474580891,
                                                   1.4142135623730951,
                                                   1.4556531828421873,
                                                   1.4983070768766815,
                                                   1.5422108254079407,
                                                   1.5874010519681996,
                                                   1.6339154532410998,
                                                   1.681792830507429,
                                                   1.7310731220122861,
                                                   1.7817974362806785,
                                                   1.8340080864093424,
                                                   1.887748625363387,
                                                   1.9430638823072117};
    kaiju1::Multipliers multipliers;
    for (size_t i = 0; i < kMultipliers; ++i) {
        multipliers[i] = static_cast<float>(std::ldexp(kRoots[i % per_octave * (kParts / per_octave)],
                                                       static_cast<int>(i / per_octave) + first));
    }
    return multipliers;
}

}  // namespace kaiju::codec
