// Feedback through a full covariance. With the columns in reverse order, Ŝ = LL' (Cholesky) has the
// elimination of the blocks from the last to the first in it: S_k = L_kk L_kk', N_kj = L_kk^-T L_jk'.
// Published form: the same with the columns in order, N_rk = L_rk L_kk^-1.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>

#include "base/error.h"
#include "base/parallel.h"
#include "stats/cholesky.h"
#include "stats/feedback_impl.h"

namespace kaiju::stats {

namespace {

using Eigen::Index;
using Eigen::MatrixXd;

constexpr Index kWidth = kFeedbackBlock;
constexpr size_t kRowsAtATime = 64;

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
        const size_t width = from_[block].size() / kFeedbackBlock;
        lanes_.multiply_add(from_[block].data(), width, kFeedbackBlock, width, state + skip_ * kLanes, shift);
    }
    void shift_side_band(const float* state, float* shift) const override {
        std::fill_n(shift, n_hi_ * kLanes, 0.0F);
        if (!from_hi_.empty()) {
            lanes_.multiply_add(from_hi_.data(), cols_, n_hi_, cols_, state, shift);
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
    DenseCovariance(std::span<const float> full, std::span<const uint32_t> order, size_t n_hi, int threads)
        : Covariance(order.size(), n_hi), matrix_(order.size(), order.size()), threads_(threads) {
        const size_t dim = order.size();
        parallel_for(dim, kRowsAtATime, threads, [&](size_t begin, size_t end) {
            for (size_t i = begin; i < end; ++i) {
                float* const row = matrix_.row(static_cast<Index>(i)).data();
                for (size_t j = 0; j < dim; ++j) {
                    row[j] = full[order[i] * dim + order[j]];
                }
            }
        });
        mean_ = matrix_.diagonal().cast<double>().sum() / static_cast<double>(dim);
        if (!std::isfinite(mean_) || !matrix_.allFinite()) {
            throw Error(ErrorCode::bad_input,
                        "the covariance has values that are not finite: capture it again");
        }
    }

    void times(const float* x, float* out, size_t count) const override {
        const size_t each = cols() * kLanes;
        std::fill_n(out, count * each, 0.0F);
        for (size_t row = 0; row < cols(); row += kFeedbackBlock) {  // read once for all
            const size_t rows = std::min(kFeedbackBlock, cols() - row);
            for (size_t n = 0; n < count; ++n) {
                lanes_.multiply_add(matrix_.data() + row * cols(), cols(), rows, cols(), x + n * each,
                                    out + n * each + row * kLanes);
            }
        }
    }

    void half_times(const float* x, float* out, size_t count) const override {
        const size_t each = cols() * kLanes;
        std::fill_n(out, count * each, 0.0F);
        for (size_t row = 0; row < cols(); row += kFeedbackBlock) {
            const size_t rows = std::min(kFeedbackBlock, cols() - row);
            const float* const a = matrix_.data() + row * cols();
            std::array<float, kFeedbackBlock * kFeedbackBlock> square{};
            for (size_t i = 0; i < rows; ++i) {
                std::copy_n(a + i * cols() + row, i, square.data() + i * rows);
                square[i * rows + i] = a[i * cols() + row + i] / 2;
            }
            for (size_t n = 0; n < count; ++n) {
                float* const to = out + n * each + row * kLanes;
                lanes_.multiply_add(a, cols(), rows, row, x + n * each, to);
                lanes_.multiply_add(square.data(), rows, rows, rows, x + n * each + row * kLanes, to);
            }
        }
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
        const size_t count = last ? n_hi() : 0;
        // Reversed commit order; a side-band that comes last is eliminated first.
        const auto column = [&](size_t i) {
            return static_cast<Index>(i < count ? count - 1 - i : cols() - 1 - (i - count));
        };
        LowerTriangle lower(cols());
        parallel_for(cols(), kRowsAtATime, threads_, [&](size_t begin, size_t end) {
            for (size_t i = begin; i < end; ++i) {
                for (size_t j = 0; j <= i; ++j) {
                    lower.at(i, j) = matrix_(column(i), column(j));
                }
                lower.at(i, i) += static_cast<float>(damp * mean_);
            }
        });
        if (!lower.factorise(threads_)) {
            return nullptr;
        }
        auto made = std::make_unique<DenseFeedback>(cols(), n_hi(), last ? n_hi() : 0, false);
        parallel_for(blocks(), 1, threads_, [&](size_t block, size_t) {
            const size_t earlier = n_hi() + block * kFeedbackBlock - count;
            const size_t at =
                cols() - earlier - kFeedbackBlock;  // where the block lies in the reversed order
            const MatrixXd l = part_of(lower, at, kFeedbackBlock, at).triangularView<Eigen::Lower>();
            MatrixXd n(kWidth, 0);
            if (earlier > 0) {
                const MatrixXd below = part_of(lower, at + kFeedbackBlock, earlier, at);
                n = l.transpose().triangularView<Eigen::Upper>().solve(below.transpose()).reverse().eval();
            }
            made->set_block(block, (l * l.transpose()).reverse(), n);
        });
        return !last || add_side_band(*made, damp) ? std::move(made) : nullptr;
    }

    /// `rows` rows from one on, and 24 columns from one on; zeros above the diagonal.
    static MatrixXd part_of(const LowerTriangle& lower, size_t row, size_t rows, size_t column) {
        MatrixXd part = MatrixXd::Zero(static_cast<Index>(rows), kWidth);
        for (size_t j = 0; j < kFeedbackBlock; ++j) {
            for (size_t i = column + j > row ? column + j - row : 0; i < rows; ++i) {
                part(static_cast<Index>(i), static_cast<Index>(j)) = lower.at(row + i, column + j);
            }
        }
        return part;
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
        std::atomic<bool> definite = true;
        parallel_for(blocks(), 1, threads_, [&](size_t block, size_t) {
            const Index at = first_of(block);
            MatrixXd s = matrix_.block(at, at, kWidth, kWidth).cast<double>();
            s.diagonal().array() += damp * mean_;
            const Eigen::LLT<MatrixXd> factor(s);
            if (factor.info() != Eigen::Success) {
                definite = false;
                return;
            }
            made->set_block(block, s,
                            joint ? MatrixXd(factor.solve(matrix_.middleRows(at, kWidth).cast<double>()))
                                  : MatrixXd(kWidth, 0));
        });
        if (!definite) {
            return nullptr;
        }
        return !joint || add_side_band(*made, damp) ? std::move(made) : nullptr;
    }

    RowMajorMatrix matrix_;
    double mean_ = 0;  ///< of the diagonal
    int threads_;
    const LaneKernels& lanes_ = lane_kernels();
};

}  // namespace

std::unique_ptr<Covariance> make_covariance(std::span<const float> full, std::span<const uint32_t> order,
                                            size_t n_hi, int threads) {
    if (full.size() != order.size() * order.size()) {
        throw Error(ErrorCode::usage,
                    fmt::format("{} entries are no covariance of {} inputs", full.size(), order.size()));
    }
    check_order(order.size(), order, n_hi);
    return std::make_unique<DenseCovariance>(full, order, n_hi, threads);
}

}  // namespace kaiju::stats
