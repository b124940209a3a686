#include "codec/encoder_v1.h"

#include <algorithm>
#include <cmath>

namespace kaiju::codec {

using kaiju1::kBlock;

namespace {

/// Blocks that the batched search needs to run at full speed.
constexpr size_t kBlocksPerPiece = 1024;

size_t rows_for(const kaiju1::Layout& layout) {
    return std::max<size_t>(1, kBlocksPerPiece / std::max<size_t>(1, layout.n_blocks));
}

}  // namespace

const V1Constants& v1_constants() {
    static const V1Constants constants{
        .rms_per_step = 3.0, .row_rms_per_scale = 3.0, .multipliers = powers_of_two(8, -1)};
    return constants;
}

EncoderV1::EncoderV1(const kaiju1::Layout& layout, std::span<const float> importance,
                     const lattice::CodebookSearch& search, const V1Constants& constants)
    : Kaiju1RowEncoder(layout, importance),
      search_(search),
      constants_(constants),
      thresholds_(step_thresholds(constants.multipliers)) {
    order_columns(std::vector<double>(importance.begin(), importance.end()));
}

size_t EncoderV1::rows_per_piece() const {
    return rows_for(layout());
}

uint64_t EncoderV1::bytes_per_thread(const kaiju1::Layout& layout) {
    const uint64_t rows = std::min<uint64_t>(rows_for(layout), layout.rows);
    return rows *
           (uint64_t{layout.cols} * 2 * sizeof(float) + layout.n_blocks * sizeof(lattice::CodebookWord));
}

std::vector<std::byte> EncoderV1::head() const {
    return kaiju1::make_head(layout(), constants_.multipliers, columns());
}

void EncoderV1::encode_rows(const float* weights, size_t count, std::byte* records,
                            EncodeStats* stats) const {
    auto* record = reinterpret_cast<uint8_t*>(records);
    const size_t n_blocks = layout().n_blocks;
    std::vector<float> y(count * n_blocks * kBlock);
    std::vector<lattice::CodebookWord> nearest(count * n_blocks);
    for (size_t r = 0; r < count; ++r) {
        const float* const row = weights + r * layout().cols;
        encode_side_band(row, record + r * layout().row_bytes());
        choose_steps(row, record + r * layout().row_bytes(), y.data() + r * n_blocks * kBlock, stats[r]);
    }
    search_.nearest(y, nearest);  // one call for all rows: searches are fastest on large batches
    for (size_t r = 0; r < count; ++r) {
        encode_blocks(y.data() + r * n_blocks * kBlock, nearest.data() + r * n_blocks,
                      record + r * layout().row_bytes(), stats[r]);
        add_diagonal(weights + r * layout().cols, record + r * layout().row_bytes(), constants_.multipliers,
                     stats[r]);
    }
}

void EncoderV1::choose_steps(const float* row, uint8_t* record, float* y, EncodeStats& stats) const {
    const kaiju1::RowFields fields(record, layout());
    std::fill_n(fields.nibbles, layout().nibble_bytes(), uint8_t{0});
    const uint32_t* const bulk = columns().data() + layout().n_hi;
    std::vector<double> power(layout().n_blocks, 0.0);
    double total = 0;
    for (uint32_t block = 0; block < layout().n_blocks; ++block) {
        for (size_t i = 0; i < kBlock; ++i) {
            const double w = row[bulk[kBlock * block + i]];
            power[block] += w * w;
        }
        total += power[block];
    }
    const double bulk_weights = std::max<double>(1, static_cast<double>(layout().n_blocks) * kBlock);
    const auto row_scale = static_cast<float>(std::sqrt(total / bulk_weights) / constants_.row_rms_per_scale);
    store(fields.scales, row_scale);
    for (uint32_t block = 0; block < layout().n_blocks; ++block) {
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

void EncoderV1::encode_blocks(const float* y, const lattice::CodebookWord* nearest, uint8_t* record,
                              EncodeStats& stats) const {
    const kaiju1::RowFields fields(record, layout());
    for (uint32_t block = 0; block < layout().n_blocks; ++block) {
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
    }
}

}  // namespace kaiju::codec
