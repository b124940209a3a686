#include "codec/tensor_encoder.h"

#include <algorithm>

#include "base/parallel.h"
#include "codec/encoder_v1.h"

namespace kaiju::codec {

lattice::CodebookSearch make_search(const EncodeOptions& options) {
    return lattice::CodebookSearch(options.encoder == "v3" ? options.v3.codebook : lattice::Parity::kept,
                                   lattice::codebook_method(options.decoder));
}

std::vector<double> column_energy(const TensorDecoder& weights, uint64_t rows, uint64_t cols, int threads) {
    constexpr uint64_t kRows = 64;
    std::vector<std::vector<double>> pieces((rows + kRows - 1) / kRows);
    // Over pieces, not rows: ranges of rows would begin anywhere.
    parallel_for(pieces.size(), 1, threads, [&](size_t begin, size_t end) {
        for (size_t piece = begin; piece < end; ++piece) {
            const uint64_t first = piece * kRows;
            std::vector<float> values(std::min(kRows, rows - first) * cols);
            weights.decode_rows(first, values.size() / cols, values.data());
            std::vector<double>& sums = pieces[piece];
            sums.assign(cols, 0.0);
            for (size_t i = 0; i < values.size(); ++i) {
                sums[i % cols] += static_cast<double>(values[i]) * values[i];
            }
        }
    });
    std::vector<double> energy(cols, 0.0);
    for (const auto& piece : pieces) {
        for (size_t j = 0; j < cols; ++j) {
            energy[j] += piece[j];
        }
    }
    return energy;
}

void add_legacy_sample(const TensorDecoder& weights, const TensorDecoder& encoded, const EncoderV3& encoder,
                       EncodeStats& stats) {
    constexpr uint64_t kPieces = 2;
    const auto& layout = encoder.layout();
    const uint64_t piece = std::min<uint64_t>(stats::kLanes, layout.rows);
    const uint64_t pieces = std::min(kPieces, layout.rows / piece);
    std::vector<float> rows(piece * layout.cols);
    std::vector<float> mine(piece * layout.cols);
    for (uint64_t n = 0; n < pieces; ++n) {
        const uint64_t first = n * (layout.rows / pieces);
        weights.decode_rows(first, piece, rows.data());
        encoded.decode_rows(first, piece, mine.data());
        encoder.add_legacy(rows.data(), mine.data(), piece, stats);
    }
}

EncoderV3::MakeCovariance covariance_of(const format::SketchEntry& entry) {
    return [&entry](std::span<const uint32_t> order, size_t n_hi) {
        const format::Sketch sketch = entry.load();
        return stats::make_covariance({.diag = sketch.diag, .eigval = sketch.eigval, .eigvec = sketch.eigvec},
                                      order, n_hi);
    };
}

EncoderV3::MakeCovariance covariance_of(const format::CovarianceFile& file,
                                        const format::CovarianceEntry& entry) {
    return [&file, &entry](std::span<const uint32_t> order, size_t n_hi) {
        std::vector<float> dense(uint64_t{entry.dim} * entry.dim);
        file.fill(entry, std::span<float>(dense));
        file.release(entry);
        return stats::make_covariance(dense, order, n_hi);
    };
}

std::unique_ptr<RowEncoder> make_row_encoder(const EncodePlan& plan, const PlanEntry& entry,
                                             const TensorDecoder& weights,
                                             const lattice::CodebookSearch& search) {
    if (!plan.is_v3()) {
        return std::make_unique<EncoderV1>(entry.layout, entry.importance, search);
    }
    return within("tap " + entry.tap, [&]() -> std::unique_ptr<RowEncoder> {
        const auto covariance = plan.sketch
                                    ? covariance_of(*plan.sketch->find(entry.tap))
                                    : covariance_of(*plan.covariance, *plan.covariance->find(entry.tap));
        return std::make_unique<EncoderV3>(
            entry.layout, entry.importance,
            column_energy(weights, entry.layout.rows, entry.layout.cols, plan.options.threads), covariance,
            search, plan.options.v3);
    });
}

}  // namespace kaiju::codec
