// What the errors of quantised weights cost, tensor by tensor, on the diagonal and against a sketch of the
// whole covariance (docs/evaluation.md).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/monitor.h"
#include "format/imatrix.h"
#include "format/model_file.h"
#include "format/sketch.h"

namespace kaiju::eval {

/// One tensor of one artifact against the truth, ΔW = artifact - truth.
struct TensorScore {
    std::string name{};
    std::string type{};  ///< in the artifact
    uint64_t weights = 0;
    double diag_excess = 0;             ///< Σ h_i ΔW_i², h the importance
    std::vector<double> full_excess{};  ///< Σ over rows of e'Ŝe, per K asked for
};

struct ScoreOptions {
    std::vector<uint32_t> ks{32, 64, 128};  ///< eigenpairs of Ŝ; more than the sketch has are an error
    int threads = 0;                        ///< 0: all processors of this process
};

/// Scores all matrices that an encoder would encode (codec::is_linear_weight). `sketches` may be nullptr:
/// then full_excess stays empty. Throws missing, naming the tensor, where artifact, importance or sketch lack
/// it; bad_input where shapes differ; usage where the sketch has fewer eigenpairs than are asked for.
[[nodiscard]] std::vector<TensorScore> score_model(const format::ModelFile& truth,
                                                   const format::ModelFile& artifact,
                                                   const format::Imatrix& imatrix,
                                                   const format::SketchFile* sketches,
                                                   const ScoreOptions& options, Monitor& monitor);

}  // namespace kaiju::eval
