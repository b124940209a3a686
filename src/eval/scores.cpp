#include "eval/scores.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/parallel.h"
#include "codec/scope.h"
#include "codec/tensor_decoder.h"
#include "format/taps.h"
#include "stats/error_sums.h"

namespace kaiju::eval {

using format::ModelFile;
using format::TensorInfo;

namespace {

constexpr uint64_t kRowsAtATime = 512;

[[noreturn]] void lacks(std::string_view what, std::string_view which) {
    throw Error(ErrorCode::missing, fmt::format("{} has no {}", what, which));
}

std::unique_ptr<codec::TensorDecoder> decoder_of(const ModelFile& model, size_t index) {
    return within(model.path().string(),
                  [&] { return codec::make_tensor_decoder(model.tensors()[index], model.payload(index)); });
}

/// Sums over all rows of artifact - truth.
void add_errors(const codec::TensorDecoder& truth, const codec::TensorDecoder& artifact, uint64_t rows,
                uint64_t cols, int threads, stats::ErrorSums& sums) {
    std::vector<float> errors(std::min(kRowsAtATime, rows) * cols);
    std::vector<float> exact(errors.size());
    for (uint64_t first = 0; first < rows; first += kRowsAtATime) {
        const uint64_t count = std::min(kRowsAtATime, rows - first);
        constexpr size_t kGrain = 16;
        parallel_for(count, kGrain, threads, [&](size_t begin, size_t end) {
            const size_t at = begin * cols;
            artifact.decode_rows(first + begin, end - begin, errors.data() + at);
            truth.decode_rows(first + begin, end - begin, exact.data() + at);
            for (size_t i = at; i < end * cols; ++i) {
                errors[i] -= exact[i];
            }
        });
        sums.add(errors.data(), count, threads);
    }
}

class Scorer {
  public:
    Scorer(const ModelFile& truth, const ModelFile& artifact, const format::Imatrix& imatrix,
           const format::SketchFile* sketches, const ScoreOptions& options)
        : truth_(truth),
          artifact_(artifact),
          imatrix_(imatrix),
          sketches_(sketches),
          options_(options),
          threads_(options.threads > 0 ? options.threads : default_threads()) {}

    [[nodiscard]] TensorScore score(size_t index) const {
        const TensorInfo& info = truth_.tensors()[index];
        const auto other = artifact_.find(info.name);
        if (!other) {
            lacks(artifact_.path().string(), "such tensor");
        }
        const TensorInfo& made = artifact_.tensors()[*other];
        if (made.shape != info.shape) {
            throw Error(ErrorCode::bad_input, fmt::format("{}: it has another shape than in {}",
                                                          artifact_.path().string(), truth_.path().string()));
        }
        const std::vector<float> importance = importance_of(info);
        const std::optional<format::Sketch> sketch = sketch_of(info);
        stats::ErrorSums sums(sketch ? std::span<const float>(sketch->eigvec) : std::span<const float>(),
                              info.cols());
        add_errors(*decoder_of(truth_, index), *decoder_of(artifact_, *other), info.rows(), info.cols(),
                   threads_, sums);
        truth_.release(index);
        artifact_.release(*other);
        TensorScore score{.name = info.name, .type = made.type, .weights = info.weights()};
        for (size_t i = 0; i < importance.size(); ++i) {
            score.diag_excess += static_cast<double>(importance[i]) * sums.squares()[i];
        }
        if (sketch) {
            for (const uint32_t k : options_.ks) {
                score.full_excess.push_back(stats::sketch_form(sketch->diag, sketch->eigval, sketch->eigvec,
                                                               std::min(k, sketch->dim()),
                                                               format::kSketchFloor, sums));
            }
        }
        return score;
    }

  private:
    [[nodiscard]] std::vector<float> importance_of(const TensorInfo& info) const {
        const format::ImatrixEntry* entry = imatrix_.find(info.name);
        if (entry == nullptr) {
            lacks("the importance matrix", "such tensor");
        }
        if (entry->sum_of_squares.size() != info.cols()) {
            throw Error(ErrorCode::bad_input, fmt::format("importance of {} columns for {}",
                                                          entry->sum_of_squares.size(), info.cols()));
        }
        return entry->mean_squares();
    }

    [[nodiscard]] std::optional<format::Sketch> sketch_of(const TensorInfo& info) const {
        if (sketches_ == nullptr) {
            return std::nullopt;
        }
        const std::string tap = format::tap_of(info.name).value_or("");
        const format::SketchEntry* entry = sketches_->find(tap);
        if (entry == nullptr) {
            lacks(sketches_->path().string(), fmt::format("tap {}", tap));
        }
        if (entry->dim != info.cols()) {
            throw Error(ErrorCode::bad_input,
                        fmt::format("tap {} has {} columns, not {}", tap, entry->dim, info.cols()));
        }
        const uint32_t most = options_.ks.empty() ? 0 : std::ranges::max(options_.ks);
        if (entry->k < std::min(most, entry->dim)) {
            throw Error(
                ErrorCode::usage,
                fmt::format("tap {} has {} eigenpairs, {} are asked for: capture with --k {}, or name "
                            "fewer",
                            tap, entry->k, most, most));
        }
        return entry->load();
    }

    const ModelFile& truth_;
    const ModelFile& artifact_;
    const format::Imatrix& imatrix_;
    const format::SketchFile* sketches_;
    const ScoreOptions& options_;
    int threads_;
};

}  // namespace

std::vector<TensorScore> score_model(const ModelFile& truth, const ModelFile& artifact,
                                     const format::Imatrix& imatrix, const format::SketchFile* sketches,
                                     const ScoreOptions& options, Monitor& monitor) {
    std::vector<size_t> scored;
    uint64_t weights = 0;
    for (size_t i = 0; i < truth.tensors().size(); ++i) {
        if (codec::is_linear_weight(truth.tensors()[i].name)) {
            scored.push_back(i);
            weights += truth.tensors()[i].weights();
        }
    }
    if (scored.empty()) {
        throw Error(ErrorCode::bad_input,
                    fmt::format("{}: no matrices that an encoder would encode", truth.path().string()));
    }
    const Scorer scorer(truth, artifact, imatrix, sketches, options);
    std::vector<TensorScore> scores;
    scores.reserve(scored.size());
    monitor.begin(fmt::format("score {}", artifact.path().filename().string()), weights, "weights");
    for (const size_t index : scored) {
        monitor.check_cancelled();
        const TensorInfo& info = truth.tensors()[index];
        scores.push_back(within(fmt::format("tensor {}", info.name), [&] { return scorer.score(index); }));
        monitor.advance(info.weights());
    }
    monitor.end();
    return scores;
}

}  // namespace kaiju::eval
