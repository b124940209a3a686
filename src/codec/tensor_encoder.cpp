#include "codec/tensor_encoder.h"

#include <algorithm>
#include <numeric>

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
                                        const format::CovarianceEntry& entry, int threads) {
    return [&file, &entry, threads](std::span<const uint32_t> order, size_t n_hi) {
        std::vector<float> dense(uint64_t{entry.dim} * entry.dim);
        file.fill(entry, std::span<float>(dense));
        file.release(entry);
        return stats::make_covariance(dense, order, n_hi, threads);
    };
}

namespace {

std::vector<uint32_t> in_order(size_t count) {
    std::vector<uint32_t> order(count);
    std::iota(order.begin(), order.end(), 0U);
    return order;
}

}  // namespace

MakeRotatedCovariance rotated_covariance_of(const format::SketchEntry& entry) {
    return [&entry](const Rotation& rotation, size_t padding) {
        const format::Sketch sketch = entry.load();
        const size_t cols = sketch.diag.size();
        const size_t rank = sketch.eigval.size();
        const size_t padded = cols + padding;
        std::vector<double> rest(sketch.diag.begin(), sketch.diag.end());
        std::vector<float> vectors(rank * padded, 0.0F);
        std::vector<double> explained(cols, 0.0);
        for (size_t k = 0; k < rank; ++k) {
            float* const vector = vectors.data() + k * padded;
            std::copy_n(sketch.eigvec.data() + k * cols, cols, vector);
            for (size_t j = 0; j < cols; ++j) {
                rest[j] -= static_cast<double>(sketch.eigval[k]) * vector[j] * vector[j];
            }
            rotation.rotate(vector);
            for (size_t j = 0; j < cols; ++j) {
                explained[j] += static_cast<double>(sketch.eigval[k]) * vector[j] * vector[j];
            }
        }
        std::vector<float> diag(padded, 0.0F);
        const size_t span = rotation.span();
        for (size_t begin = 0; begin < cols; begin += span) {
            double mean = 0;
            for (size_t j = begin; j < begin + span; ++j) {
                mean += std::max(0.0, rest[j]) / static_cast<double>(span);
            }
            for (size_t j = begin; j < begin + span; ++j) {
                diag[j] = static_cast<float>(explained[j] + mean);
            }
        }
        return stats::make_covariance({.diag = diag, .eigval = sketch.eigval, .eigvec = vectors},
                                      in_order(padded), 0);
    };
}

std::unique_ptr<stats::Covariance> rotated_covariance(std::vector<float> full, const Rotation& rotation,
                                                      size_t padding, int threads) {
    constexpr size_t kAtATime = 64;  // rows or columns
    const size_t cols = rotation.cols();
    const size_t padded = cols + padding;
    // H D S D H: the rows, then the columns, many side by side.
    parallel_for(cols, kAtATime, threads, [&](size_t begin, size_t end) {
        for (size_t i = begin; i < end; ++i) {
            rotation.rotate(full.data() + i * cols);
        }
    });
    parallel_for(cols, kAtATime, threads, [&](size_t begin, size_t end) {
        rotation.rotate_rows(full.data() + begin, end - begin, cols);
    });
    std::vector<float> all(padded * padded, 0.0F);
    parallel_for(cols, kAtATime, threads, [&](size_t begin, size_t end) {
        for (size_t left = 0; left < cols; left += kAtATime) {
            for (size_t i = begin; i < end; ++i) {
                for (size_t j = left; j < std::min(left + kAtATime, cols); ++j) {
                    all[i * padded + j] = (full[i * cols + j] + full[j * cols + i]) / 2;
                }
            }
        }
    });
    full = {};
    return stats::make_covariance(all, in_order(padded), 0, threads);
}

MakeRotatedCovariance rotated_covariance_of(const format::CovarianceFile& file,
                                            const format::CovarianceEntry& entry, int threads) {
    return [&file, &entry, threads](const Rotation& rotation, size_t padding) {
        std::vector<float> dense(uint64_t{entry.dim} * entry.dim);
        file.fill(entry, std::span<float>(dense));
        file.release(entry);
        return rotated_covariance(std::move(dense), rotation, padding, threads);
    };
}

std::unique_ptr<RowEncoder> make_row_encoder(const EncodePlan& plan, const PlanEntry& entry,
                                             const TensorDecoder& weights,
                                             const lattice::CodebookSearch& search) {
    if (!plan.is_v3()) {
        return std::make_unique<EncoderV1>(entry.layout, entry.importance, search);
    }
    return within("tap " + entry.tap, [&]() -> std::unique_ptr<RowEncoder> {
        if (const auto index_bits = kaiju4::index_bits_of(entry.info.type)) {
            V3Options options = plan.options.v3;
            options.damp = damp_of(options, entry.info.cols(),
                                   plan.covariance ? plan.covariance->find(entry.tap)->samples : 0);
            return std::make_unique<EncoderKaiju4>(
                kaiju4::Layout::for_matrix(entry.info.rows(), entry.info.cols(), *index_bits),
                entry.importance,
                plan.sketch ? rotated_covariance_of(*plan.sketch->find(entry.tap))
                            : rotated_covariance_of(*plan.covariance, *plan.covariance->find(entry.tap),
                                                    plan.options.threads),
                options);
        }
        const auto covariance =
            plan.sketch
                ? covariance_of(*plan.sketch->find(entry.tap))
                : covariance_of(*plan.covariance, *plan.covariance->find(entry.tap), plan.options.threads);
        return std::make_unique<EncoderV3>(
            entry.layout, entry.importance,
            column_energy(weights, entry.layout.rows, entry.layout.cols, plan.options.threads), covariance,
            search, plan.options.v3);
    });
}

}  // namespace kaiju::codec
