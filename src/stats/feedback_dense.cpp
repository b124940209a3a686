// Feedback through a full covariance. With the columns in reverse order, Ŝ = LL' (Cholesky) has the
// elimination of the blocks from the last to the first in it: S_k = L_kk L_kk', N_kj = L_kk^-T L_jk'.
// Published form: the same with the columns in order, N_rk = L_rk L_kk^-1.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "stats/feedback_impl.h"

namespace kaiju::stats {

namespace {

using Eigen::Index;
using Eigen::MatrixXd;

constexpr Index kWidth = kFeedbackBlock;

/// The state is the errors of all columns; shift_k = from_k times the first width_k of them.
class DenseFeedback final : public Feedback {
  public:
    /// skip: columns that shifts of blocks leave out, 0 or n_hi.
    DenseFeedback(size_t cols, size_t n_hi, size_t skip, bool errors_from_target)
        : cols_(cols),
          n_hi_(n_hi),
          skip_(skip),
          errors_from_target_(errors_from_target),
          from_((cols - n_hi) / kFeedbackBlock),
          metric_((cols - n_hi) * kFeedbackBlock) {}

    [[nodiscard]] size_t state_size() const override { return cols_; }
    [[nodiscard]] bool errors_from_target() const override { return errors_from_target_; }
    [[nodiscard]] const float* metric(size_t block) const override {
        return metric_.data() + block * kFeedbackBlock * kFeedbackBlock;
    }
    void shift(size_t block, const float* state, float* shift) const override {
        std::fill_n(shift, kFeedbackBlock * kLanes, 0.0F);
        lanes_.multiply_add(from_[block].data(), kFeedbackBlock, from_[block].size() / kFeedbackBlock,
                            state + skip_ * kLanes, shift);
    }
    void shift_side_band(const float* state, float* shift) const override {
        std::fill_n(shift, n_hi_ * kLanes, 0.0F);
        if (!from_hi_.empty()) {
            lanes_.multiply_add(from_hi_.data(), n_hi_, cols_, state, shift);
        }
    }
    void commit(size_t block, const float* errors, float* state) const override {
        add(errors, kFeedbackBlock, state + (n_hi_ + block * kFeedbackBlock) * kLanes);
    }
    void commit_side_band(const float* errors, float* state) const override { add(errors, n_hi_, state); }

    void set_side_band(const MatrixXd& from) {
        from_hi_.resize(static_cast<size_t>(from.size()));
        Eigen::Map<RowMajorMatrix>(from_hi_.data(), from.rows(), from.cols()) = from.cast<float>();
    }
    void set_block(size_t block, const MatrixXd& metric, const MatrixXd& from) {
        Eigen::Map<RowMajorMatrix>(metric_.data() + block * kFeedbackBlock * kFeedbackBlock, kWidth, kWidth) =
            metric.cast<float>();
        if (from.size() == 0) {  // nothing comes before it
            return;
        }
        from_[block].resize(static_cast<size_t>(from.size()));
        Eigen::Map<RowMajorMatrix>(from_[block].data(), kWidth, from.cols()) = from.cast<float>();
    }

  private:
    static void add(const float* errors, size_t count, float* state) {
        for (size_t i = 0; i < count * kLanes; ++i) {
            state[i] += errors[i];
        }
    }

    size_t cols_;
    size_t n_hi_;
    size_t skip_;
    bool errors_from_target_;
    std::vector<std::vector<float>> from_;  ///< per block 24 x width
    std::vector<float> from_hi_;            ///< n_hi x cols
    std::vector<float> metric_;
    const LaneKernels& lanes_ = lane_kernels();
};

class DenseCovariance final : public Covariance {
  public:
    DenseCovariance(std::span<const float> full, std::span<const uint32_t> order, size_t n_hi)
        : Covariance(order.size(), n_hi), matrix_(order.size(), order.size()) {
        const size_t dim = order.size();
        double total = 0;
        for (size_t i = 0; i < dim; ++i) {
            for (size_t j = 0; j < dim; ++j) {
                matrix_(static_cast<Index>(i), static_cast<Index>(j)) = full[order[i] * dim + order[j]];
            }
            total += matrix_(static_cast<Index>(i), static_cast<Index>(i));
        }
        mean_ = total / static_cast<double>(dim);
        if (!std::isfinite(mean_) || !matrix_.allFinite()) {
            throw Error(ErrorCode::bad_input,
                        "the covariance has values that are not finite: capture it again");
        }
    }

    void times(const float* x, float* out) const override {
        std::fill_n(out, cols() * kLanes, 0.0F);
        lanes_.multiply_add(matrix_.data(), cols(), cols(), x, out);
    }

  private:
    [[nodiscard]] Index first_of(size_t block) const {
        return static_cast<Index>(n_hi() + block * kFeedbackBlock);
    }
    /// Ŝ_hh^-1 Ŝ_h,all; without rows where it cannot be factorised.
    [[nodiscard]] MatrixXd side_band_gain(double damp) const {
        const auto count = static_cast<Index>(n_hi());
        MatrixXd s = matrix_.topLeftCorner(count, count).cast<double>();
        s.diagonal().array() += damp * mean_;
        const Eigen::LLT<MatrixXd> factor(s);
        return factor.info() == Eigen::Success ? MatrixXd(factor.solve(matrix_.topRows(count).cast<double>()))
                                               : MatrixXd(0, matrix_.cols());
    }

    [[nodiscard]] std::unique_ptr<Feedback> backwards(SideBand side_band, double damp) const override {
        const bool last = side_band == SideBand::last;
        const auto dim = static_cast<Index>(cols());
        const auto count = static_cast<Index>(n_hi());
        // Reversed commit order; a side-band that comes last is eliminated first.
        MatrixXd reversed(dim, dim);
        if (last) {
            const Index bulk = dim - count;
            reversed.topLeftCorner(count, count) =
                matrix_.topLeftCorner(count, count).cast<double>().reverse();
            reversed.bottomRightCorner(bulk, bulk) =
                matrix_.bottomRightCorner(bulk, bulk).cast<double>().reverse();
            reversed.bottomLeftCorner(bulk, count) =
                matrix_.bottomLeftCorner(bulk, count).cast<double>().reverse();
        } else {
            reversed = matrix_.cast<double>().reverse();
        }
        reversed.diagonal().array() += damp * mean_;
        const Eigen::LLT<Eigen::Ref<MatrixXd>> factor(reversed);  // in place, from the lower triangle
        if (factor.info() != Eigen::Success) {
            return nullptr;
        }
        auto made = std::make_unique<DenseFeedback>(cols(), n_hi(), last ? n_hi() : 0, false);
        for (size_t block = 0; block < blocks(); ++block) {
            const Index earlier = first_of(block) - (last ? count : 0);
            const Index at = dim - earlier - kWidth;  // where the block lies in the reversed order
            const MatrixXd l = reversed.block(at, at, kWidth, kWidth).triangularView<Eigen::Lower>();
            MatrixXd n(kWidth, earlier);
            if (earlier > 0) {
                const MatrixXd below = reversed.block(at + kWidth, at, earlier, kWidth);
                n = l.transpose().triangularView<Eigen::Upper>().solve(below.transpose()).reverse().eval();
            }
            made->set_block(block, (l * l.transpose()).reverse(), n);
        }
        return !last || add_side_band(*made, damp) ? std::move(made) : nullptr;
    }

    /// False where the side-band's own covariance cannot be factorised.
    [[nodiscard]] bool add_side_band(DenseFeedback& feedback, double damp) const {
        if (n_hi() == 0) {
            return true;
        }
        const MatrixXd gain = side_band_gain(damp);
        if (gain.rows() > 0) {
            feedback.set_side_band(gain);
        }
        return gain.rows() > 0;
    }

    [[nodiscard]] std::unique_ptr<Feedback> forwards(double damp) const override {
        MatrixXd lower = matrix_.cast<double>();
        lower.diagonal().array() += damp * mean_;
        const Eigen::LLT<Eigen::Ref<MatrixXd>> factor(lower);
        if (factor.info() != Eigen::Success) {
            return nullptr;
        }
        auto made = std::make_unique<DenseFeedback>(cols(), n_hi(), 0, true);
        const auto side_band = static_cast<Index>(n_hi());
        // N over all columns, unit blocks left out: the side-band is one block of its own.
        MatrixXd n = MatrixXd::Zero(static_cast<Index>(cols()), static_cast<Index>(cols()));
        const auto eliminate = [&](Index at, Index width) {
            const Index rest = static_cast<Index>(cols()) - at - width;
            if (rest == 0) {
                return;
            }
            const MatrixXd l = lower.block(at, at, width, width).triangularView<Eigen::Lower>();
            n.block(at + width, at, rest, width) =
                l.transpose()
                    .triangularView<Eigen::Upper>()
                    .solve(lower.block(at + width, at, rest, width).transpose())
                    .transpose();
        };
        if (side_band > 0) {
            eliminate(0, side_band);
        }
        for (size_t block = 0; block < blocks(); ++block) {
            eliminate(first_of(block), kWidth);
        }
        for (size_t block = 0; block < blocks(); ++block) {
            const Index at = first_of(block);
            const MatrixXd l = lower.block(at, at, kWidth, kWidth).triangularView<Eigen::Lower>();
            made->set_block(block, l * l.transpose(), n.block(at, 0, kWidth, at));
        }
        return made;
    }

    [[nodiscard]] std::unique_ptr<Feedback> apart(double damp, bool joint) const override {
        auto made = std::make_unique<DenseFeedback>(cols(), n_hi(), 0, false);
        for (size_t block = 0; block < blocks(); ++block) {
            const Index at = first_of(block);
            MatrixXd s = matrix_.block(at, at, kWidth, kWidth).cast<double>();
            s.diagonal().array() += damp * mean_;
            const Eigen::LLT<MatrixXd> factor(s);
            if (factor.info() != Eigen::Success) {
                return nullptr;
            }
            made->set_block(block, s,
                            joint ? MatrixXd(factor.solve(matrix_.middleRows(at, kWidth).cast<double>()))
                                  : MatrixXd(kWidth, 0));
        }
        return !joint || add_side_band(*made, damp) ? std::move(made) : nullptr;
    }

    RowMajorMatrix matrix_;
    double mean_ = 0;  ///< of the diagonal
    const LaneKernels& lanes_ = lane_kernels();
};

}  // namespace

std::unique_ptr<Covariance> make_covariance(std::span<const float> full, std::span<const uint32_t> order,
                                            size_t n_hi) {
    if (full.size() != order.size() * order.size()) {
        throw Error(ErrorCode::usage,
                    fmt::format("{} entries are no covariance of {} inputs", full.size(), order.size()));
    }
    check_order(order.size(), order, n_hi);
    return std::make_unique<DenseCovariance>(full, order, n_hi);
}

}  // namespace kaiju::stats
