// Error feedback against a covariance: how the errors of blocks that are committed move the targets of
// others.
//
// A row of weights w becomes w + e; what the outputs feel is e'Ŝe, Ŝ the covariance of the inputs.
// Eliminating the blocks of Ŝ from the last to the first,
//     e'Ŝe = Σ_k (e_k + Σ_{j<k} N_kj e_j)' S_k (e_k + Σ_{j<k} N_kj e_j),
// S_k the Schur complement of the blocks after k and N_kj = S_k^-1 Ŝ^(k)_kj. So blocks are committed first to
// last, block k aims at w_k - Σ_{j<k} N_kj e_j, and its candidates are compared in the metric S_k: GPTQ
// (Frantar et al. 2022), LDLQ (Chee et al. 2023), with blocks of 24. docs/feedback.md.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stats/lanes.h"

namespace kaiju::stats {

/// Weights that are committed together.
inline constexpr size_t kFeedbackBlock = 24;

/// A covariance as a sketch has it: Ŝ = diag(max(diag - diag(UΛU'), ε)) + UΛU' (docs/sket.md). dim and k as
/// in the file, spans as there: eigvec is k x dim.
struct LowRank {
    std::span<const float> diag;
    std::span<const float> eigval;
    std::span<const float> eigvec;
};

/// How errors are fed back.
enum class Fold {
    none,       ///< not at all; blocks are compared in their own block of Ŝ
    ldlq,       ///< as derived above
    published,  ///< t_r -= Ŝ_rk Ŝ_kk^-1 (rec_k - t_k) while Ŝ is eliminated forwards: for the ablation only.
                ///< It leaves (2I - L)ε, more than no feedback leaves and growing with the number of blocks
};

[[nodiscard]] Fold fold_of(std::string_view name);  ///< "none", "ldlq", "published"; else Error(usage)
[[nodiscard]] std::string_view fold_name(Fold fold);

/// When the side-band is committed.
enum class SideBand {
    first,  ///< its small errors are fed to the blocks
    last,  ///< its fine steps take up what the blocks leave: S_k then is what remains given the side-band too
};

/// One covariance, its columns in the order in which they are committed: n_hi side-band columns, then blocks
/// of 24. Shared by all rows and threads. What a row has committed so far is a `state` of state_size()
/// numbers; 16 rows are worked on together, one per lane (stats/lanes.h).
class Feedback {
  public:
    virtual ~Feedback() = default;
    Feedback(const Feedback&) = delete;
    Feedback& operator=(const Feedback&) = delete;

    /// Numbers of state a row has; they start as zeros.
    [[nodiscard]] virtual size_t state_size() const = 0;
    /// The metric that the candidates of a block are compared in: 24 x 24, symmetric.
    [[nodiscard]] virtual const float* metric(size_t block) const = 0;
    /// shift (24 x 16) = what committed errors move the block's target by, to be subtracted from it.
    virtual void shift(size_t block, const float* state, float* shift) const = 0;
    /// Adds the errors (24 x 16) of a block to the state; a change of errors where it was there already.
    virtual void commit(size_t block, const float* errors, float* state) const = 0;
    /// The same for the side-band, n_hi x 16.
    virtual void commit_side_band(const float* errors, float* state) const = 0;
    /// shift (n_hi x 16) = Ŝ_hh^-1 Σ_j Ŝ_hj e_j over what is committed, the side-band's own errors taken out
    /// before: what moves its targets where it comes last, or with all blocks fixed.
    virtual void shift_side_band(const float* state, float* shift) const = 0;
    /// True if errors count against the shifted target and not against the weight (Fold::published).
    [[nodiscard]] virtual bool errors_from_target() const { return false; }

  protected:
    Feedback() = default;
};

/// A covariance in commit order, ready for feedback, quadratic forms and joint optimisation.
class Covariance {
  public:
    virtual ~Covariance() = default;
    Covariance(const Covariance&) = delete;
    Covariance& operator=(const Covariance&) = delete;

    /// out = Ŝ x for `count` x of cols x 16 numbers each, in commit order, without damping.
    virtual void times(const float* x, float* out, size_t count = 1) const = 0;
    /// out = H x with Ŝ = H + H', so that x'Ŝy = x'Hy + y'Hx: of a full covariance the lower triangle with
    /// half the diagonal, half the work.
    virtual void half_times(const float* x, float* out, size_t count) const = 0;
    /// For committing first to last. damp: part of the mean diagonal that is added to the diagonal. Where the
    /// covariance is not positive definite it is tried again with ten times as much, up to the mean itself;
    /// `used_damp` says what it took. Throws bad_input if none did.
    [[nodiscard]] std::unique_ptr<Feedback> sequential(Fold fold, SideBand side_band, double damp,
                                                       double& used_damp) const;
    /// For changing one block with all others fixed (coordinate descent), any block at any time: take its
    /// errors out of the state (commit their negatives), then shift = S_kk^-1 Σ_{j != k} Ŝ_kj e_j; the metric
    /// is Ŝ_kk.
    [[nodiscard]] std::unique_ptr<Feedback> joint(double damp) const;

    [[nodiscard]] size_t cols() const { return cols_; }
    [[nodiscard]] size_t n_hi() const { return n_hi_; }
    [[nodiscard]] size_t blocks() const { return (cols_ - n_hi_) / kFeedbackBlock; }

  protected:
    Covariance(size_t cols, size_t n_hi) : cols_(cols), n_hi_(n_hi) {}

    // Null where this damping is too little.
    [[nodiscard]] virtual std::unique_ptr<Feedback> backwards(SideBand side_band, double damp) const = 0;
    [[nodiscard]] virtual std::unique_ptr<Feedback> forwards(double damp) const = 0;
    /// Blocks in their own part of Ŝ: without feedback, or joint.
    [[nodiscard]] virtual std::unique_ptr<Feedback> apart(double damp, bool joint) const = 0;

  private:
    size_t cols_;
    size_t n_hi_;
};

/// order: the columns as they are committed, n_hi of them first (a permutation of 0..dim-1, dim - n_hi a
/// multiple of 24). Throws bad_input where numbers are not finite or sizes do not fit.
[[nodiscard]] std::unique_ptr<Covariance> make_covariance(const LowRank& sketch,
                                                          std::span<const uint32_t> order, size_t n_hi);
/// full: dim x dim, symmetric. `threads` work on it, with the same result for any number.
[[nodiscard]] std::unique_ptr<Covariance> make_covariance(std::span<const float> full,
                                                          std::span<const uint32_t> order, size_t n_hi,
                                                          int threads = 1);

}  // namespace kaiju::stats
