// The encoder that a plan asks for, made ready for one tensor.
#pragma once

#include <memory>

#include "codec/encode_plan.h"
#include "codec/encoder_kaiju4.h"
#include "codec/row_encoder.h"
#include "codec/tensor_decoder.h"

namespace kaiju::codec {

/// The search that the plan's encoder needs.
[[nodiscard]] lattice::CodebookSearch make_search(const EncodeOptions& options);

/// v1, or v3 with the covariance of the tensor's tap: this is where v3 factorises it. `search` must outlive
/// the result. Throws bad_input naming the tap.
[[nodiscard]] std::unique_ptr<RowEncoder> make_row_encoder(const EncodePlan& plan, const PlanEntry& entry,
                                                           const TensorDecoder& weights,
                                                           const lattice::CodebookSearch& search);

/// Adds what v1 makes of at most 32 of the rows, evenly chosen, to what stats compares v3 with. encoded: what
/// v3 has made of the tensor.
void add_legacy_sample(const TensorDecoder& weights, const TensorDecoder& encoded, const EncoderV3& encoder,
                       EncodeStats& stats);

/// Σ_r W_rj² of every column. Sums run over pieces of rows in order: they do not depend on threads.
[[nodiscard]] std::vector<double> column_energy(const TensorDecoder& weights, uint64_t rows, uint64_t cols,
                                                int threads);

/// Makes a covariance of one tap from a file of either kind, in any order of columns.
[[nodiscard]] EncoderV3::MakeCovariance covariance_of(const format::SketchEntry& entry);
[[nodiscard]] EncoderV3::MakeCovariance covariance_of(const format::CovarianceFile& file,
                                                      const format::CovarianceEntry& entry, int threads);

/// The same in the basis of a rotation's columns. Of a sketch, what its eigenvectors leave of the diagonal is
/// spread evenly over each span, which is the diagonal of its rotation.
[[nodiscard]] MakeRotatedCovariance rotated_covariance_of(const format::SketchEntry& entry);
[[nodiscard]] MakeRotatedCovariance rotated_covariance_of(const format::CovarianceFile& file,
                                                          const format::CovarianceEntry& entry, int threads);

/// full: cols x cols, symmetric, in the basis of the columns. The same for any number of threads.
[[nodiscard]] std::unique_ptr<stats::Covariance> rotated_covariance(std::vector<float> full,
                                                                    const Rotation& rotation, size_t padding,
                                                                    int threads);

}  // namespace kaiju::codec
