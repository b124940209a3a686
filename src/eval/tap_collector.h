// The second moments of the activations at every tap of a model, collected while it reads a text.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "format/model_file.h"
#include "format/sketch.h"
#include "runtime/engine.h"
#include "stats/gram.h"
#include "stats/nystrom.h"

namespace kaiju::eval {

/// One tap, and how its moments are kept.
struct TapPlan {
    std::string tap{};
    uint32_t dim = 0;
    bool gram = true;   ///< the Gram matrix; otherwise a Nyström sketch
    uint32_t rank = 0;  ///< of that sketch
    uint64_t bytes = 0;

    bool operator==(const TapPlan&) const = default;
};

/// The taps of a model, in the order of its tensors, the input of the head (last) with `head`: Gram matrices
/// where all of them together fit `memory` bytes, Nyström sketches for the widest taps until the rest fits.
/// `full` allows Gram matrices only. Throws bad_input where the model has no taps, is no dense model, or
/// where matrices of one tap differ in width; usage where even sketches (or, for `full`, the matrices) do not
/// fit, telling what would.
[[nodiscard]] std::vector<TapPlan> plan_taps(const format::ModelFile& file, uint32_t k, bool full,
                                             uint64_t memory, bool head = false);

/// Collects. Of every tap only the first matrix is looked at, since the others have the same input; of the
/// positions of a chunk every `stride`-th, from the first on.
class TapCollector final : public runtime::ActivationTap {
  public:
    TapCollector(std::vector<TapPlan> plan, uint32_t stride, int threads);

    /// The next rows belong to a new chunk, of one sequence: they begin at position 0.
    void begin_chunk();

    bool wants(std::string_view weight) override;
    /// Throws bad_input naming the tap where an input is not finite or not as wide as planned.
    void see(std::string_view weight, size_t rows, size_t cols, const float* data, size_t stride) override;
    /// Once every tap has been seen as often as the others.
    [[nodiscard]] bool finished() const override { return pending_ == 0; }

    [[nodiscard]] const std::vector<TapPlan>& plan() const { return plan_; }
    /// Activations that went into a tap. Throws internal where the engine never showed it.
    [[nodiscard]] uint64_t samples(size_t tap) const;
    [[nodiscard]] format::Sketch sketch(size_t tap, uint32_t k) const;
    /// The lower triangle, for taps with a Gram matrix.
    [[nodiscard]] std::vector<float> packed_covariance(size_t tap) const;

    /// The moments of all taps, to continue from.
    void save(const std::function<void(Bytes)>& write) const;
    void load(Bytes state);

  private:
    using Accumulator = std::variant<stats::GramAccumulator, stats::NystromAccumulator>;

    std::vector<TapPlan> plan_;
    uint32_t stride_;
    int threads_;
    std::vector<Accumulator> moments_;
    std::vector<std::string> source_;  ///< the matrix that stands for a tap, empty until it is known
    std::vector<uint64_t> position_;   ///< rows of this chunk that a tap has seen
    std::map<std::string, size_t, std::less<>> index_;   ///< of plan_, by tap
    std::map<std::string, size_t, std::less<>> tap_of_;  ///< the same by matrix
    size_t pending_;                                     ///< taps that this pass has not shown yet
    stats::Panels panels_;
};

}  // namespace kaiju::eval
