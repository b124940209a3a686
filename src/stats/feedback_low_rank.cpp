// Feedback through a sketch, O(K) a weight. Let M_k be Λ after the blocks k+1..last have been eliminated.
// Backwards,
//     S_k = Δ_k + U_k M_k U_k',   G_k = S_k^-1 U_k M_k,   M_(k-1) = M_k - M_k U_k' G_k,
// and a row keeps y = Σ_{j<k} U_j' e_j: its shift is G_k y.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "stats/feedback_impl.h"

namespace kaiju::stats {

namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

/// shift_k = from_k state, state += into_k e_k.
class LowRankFeedback final : public Feedback {
  public:
    LowRankFeedback(size_t rank, size_t n_hi, size_t blocks, bool errors_from_target)
        : rank_(rank),
          n_hi_(n_hi),
          errors_from_target_(errors_from_target),
          from_(blocks * kFeedbackBlock * rank),
          into_(blocks * kFeedbackBlock * rank),
          into_hi_(n_hi * rank),
          from_hi_(n_hi * rank),
          metric_(blocks * kFeedbackBlock * kFeedbackBlock) {}

    [[nodiscard]] size_t state_size() const override { return rank_; }
    [[nodiscard]] bool errors_from_target() const override { return errors_from_target_; }
    [[nodiscard]] const float* metric(size_t block) const override {
        return metric_.data() + block * kFeedbackBlock * kFeedbackBlock;
    }
    void shift(size_t block, const float* state, float* shift) const override {
        std::fill_n(shift, kFeedbackBlock * kLanes, 0.0F);
        lanes_.multiply_add(from_.data() + block * kFeedbackBlock * rank_, rank_, kFeedbackBlock, rank_,
                            state, shift);
    }
    void commit(size_t block, const float* errors, float* state) const override {
        lanes_.multiply_add(into_.data() + block * kFeedbackBlock * rank_, kFeedbackBlock, rank_,
                            kFeedbackBlock, errors, state);
    }
    void commit_side_band(const float* errors, float* state) const override {
        lanes_.multiply_add(into_hi_.data(), n_hi_, rank_, n_hi_, errors, state);
    }

    void shift_side_band(const float* state, float* shift) const override {
        std::fill_n(shift, n_hi_ * kLanes, 0.0F);
        lanes_.multiply_add(from_hi_.data(), rank_, n_hi_, rank_, state, shift);
    }

    void set_block(size_t block, const MatrixXd& metric, const MatrixXd& from, const MatrixXd& into) {
        const auto put = [](const MatrixXd& matrix, float* out) {
            if (matrix.size() == 0) {
                return;
            }
            Eigen::Map<RowMajorMatrix>(out, matrix.rows(), matrix.cols()) = matrix.cast<float>();
        };
        put(metric, metric_.data() + block * kFeedbackBlock * kFeedbackBlock);
        put(from, from_.data() + block * kFeedbackBlock * rank_);
        put(into, into_.data() + block * kFeedbackBlock * rank_);
    }
    void set_side_band(const MatrixXd& into, const MatrixXd& from) {
        if (into.size() == 0) {
            return;
        }
        Eigen::Map<RowMajorMatrix>(into_hi_.data(), into.rows(), into.cols()) = into.cast<float>();
        Eigen::Map<RowMajorMatrix>(from_hi_.data(), from.rows(), from.cols()) = from.cast<float>();
    }

  private:
    size_t rank_;
    size_t n_hi_;
    bool errors_from_target_;
    std::vector<float> from_;     ///< per block 24 x K
    std::vector<float> into_;     ///< per block K x 24
    std::vector<float> into_hi_;  ///< K x n_hi
    std::vector<float> from_hi_;  ///< n_hi x K
    std::vector<float> metric_;
    const LaneKernels& lanes_ = lane_kernels();
};

class LowRankCovariance final : public Covariance {
  public:
    LowRankCovariance(const LowRank& sketch, std::span<const uint32_t> order, size_t n_hi)
        : Covariance(order.size(), n_hi),
          u_(order.size(), sketch.eigval.size()),
          lambda_(sketch.eigval.size()),
          delta_(order.size()) {
        const auto rank = static_cast<Eigen::Index>(sketch.eigval.size());
        for (Eigen::Index k = 0; k < rank; ++k) {
            lambda_[k] = sketch.eigval[static_cast<size_t>(k)];
            for (size_t i = 0; i < order.size(); ++i) {
                u_(static_cast<Eigen::Index>(i), k) =
                    sketch.eigvec[static_cast<size_t>(k) * order.size() + order[i]];
            }
        }
        double total = 0;
        for (const float h : sketch.diag) {
            total += h;
        }
        mean_ = total / static_cast<double>(order.size());
        if (!std::isfinite(mean_) || !u_.allFinite() || !lambda_.allFinite()) {
            throw Error(ErrorCode::bad_input, "the sketch has values that are not finite: capture it again");
        }
        constexpr double kLeast = 1e-6;  // the ε of docs/sket.md, times the mean
        for (size_t i = 0; i < order.size(); ++i) {
            const auto row = static_cast<Eigen::Index>(i);
            const double known = (u_.row(row).array().square() * lambda_.transpose().array()).sum();
            delta_[row] = std::max(sketch.diag[order[i]] - known, kLeast * mean_);
        }
        product_ = (lambda_.asDiagonal() * u_.transpose()).cast<float>();
        back_ = u_.cast<float>();
        diagonal_.assign(order.size(), 0);
        for (size_t i = 0; i < order.size(); ++i) {
            diagonal_[i] = static_cast<float>(delta_[static_cast<Eigen::Index>(i)]);
        }
    }

    void times(const float* x, float* out, size_t count) const override {
        for (size_t n = 0; n < count; ++n) {
            times_one(x + n * cols() * kLanes, out + n * cols() * kLanes);
        }
    }

    void half_times(const float* x, float* out, size_t count) const override {
        times(x, out, count);
        std::for_each(out, out + count * cols() * kLanes, [](float& value) { value /= 2; });
    }

  private:
    void times_one(const float* x, float* out) const {
        const size_t rank = static_cast<size_t>(lambda_.size());
        std::vector<float> y(rank * kLanes, 0.0F);
        lanes_.multiply_add(product_.data(), cols(), rank, cols(), x, y.data());
        for (size_t i = 0; i < cols(); ++i) {
            for (size_t lane = 0; lane < kLanes; ++lane) {
                out[i * kLanes + lane] = diagonal_[i] * x[i * kLanes + lane];
            }
        }
        lanes_.multiply_add(back_.data(), rank, cols(), rank, y.data(), out);
    }

    [[nodiscard]] Eigen::Index first_of(size_t block) const {
        return static_cast<Eigen::Index>(n_hi() + block * kFeedbackBlock);
    }
    [[nodiscard]] MatrixXd rows(Eigen::Index first, Eigen::Index count) const {
        return u_.middleRows(first, count);
    }
    /// Δ + U M U' over some rows.
    [[nodiscard]] MatrixXd part(Eigen::Index first, Eigen::Index count, const MatrixXd& um,
                                double damp) const {
        MatrixXd s = um * u_.middleRows(first, count).transpose();
        s.diagonal() += delta_.segment(first, count);
        s.diagonal().array() += damp * mean_;
        return s;
    }

    /// The side-band's gain Ŝ_hh^-1 U_h Λ; without rows where it cannot be factorised.
    [[nodiscard]] MatrixXd side_band_gain(double damp) const {
        const auto count = static_cast<Eigen::Index>(n_hi());
        const MatrixXd um = rows(0, count) * lambda_.asDiagonal();
        const Eigen::LLT<MatrixXd> factor(part(0, count, um, damp));
        return factor.info() == Eigen::Success ? MatrixXd(factor.solve(um)) : MatrixXd(0, um.cols());
    }

    [[nodiscard]] std::unique_ptr<Feedback> backwards(SideBand side_band, double damp) const override {
        const auto rank = static_cast<size_t>(lambda_.size());
        auto made = std::make_unique<LowRankFeedback>(rank, n_hi(), blocks(), false);
        MatrixXd m = lambda_.asDiagonal();
        const auto count = static_cast<Eigen::Index>(n_hi());
        const MatrixXd u_hi = rows(0, count);
        const MatrixXd gain = n_hi() > 0 ? side_band_gain(damp) : MatrixXd(0, u_hi.cols());
        if (gain.rows() < count) {
            return nullptr;
        }
        if (side_band == SideBand::last) {
            m -= (u_hi * m).transpose() * gain;
            m = (0.5 * (m + m.transpose())).eval();
        }
        for (size_t block = blocks(); block-- > 0;) {
            const MatrixXd u = rows(first_of(block), kFeedbackBlock);
            const MatrixXd um = u * m;
            const MatrixXd s = part(first_of(block), kFeedbackBlock, um, damp);
            const Eigen::LLT<MatrixXd> factor(s);
            if (factor.info() != Eigen::Success) {
                return nullptr;
            }
            const MatrixXd g = factor.solve(um);
            made->set_block(block, s, g, u.transpose());
            m -= um.transpose() * g;
            m = (0.5 * (m + m.transpose())).eval();  // what rounding takes away from symmetry would grow
        }
        made->set_side_band(u_hi.transpose(), gain);
        return made;
    }

    [[nodiscard]] std::unique_ptr<Feedback> forwards(double damp) const override {
        const auto rank = static_cast<size_t>(lambda_.size());
        auto made = std::make_unique<LowRankFeedback>(rank, n_hi(), blocks(), true);
        MatrixXd m = lambda_.asDiagonal();
        const auto eliminate = [&](Eigen::Index first, Eigen::Index count, MatrixXd& s, MatrixXd& into) {
            const MatrixXd um = rows(first, count) * m;
            s = part(first, count, um, damp);
            const Eigen::LLT<MatrixXd> factor(s);
            if (factor.info() != Eigen::Success) {
                return false;
            }
            into = factor.solve(um).transpose();
            m -= into * um;
            m = (0.5 * (m + m.transpose())).eval();
            return true;
        };
        MatrixXd s;
        MatrixXd into(rank, 0);
        if (n_hi() > 0 && !eliminate(0, static_cast<Eigen::Index>(n_hi()), s, into)) {
            return nullptr;
        }
        made->set_side_band(into, MatrixXd::Zero(static_cast<Eigen::Index>(n_hi()), into.rows()));
        for (size_t block = 0; block < blocks(); ++block) {
            if (!eliminate(first_of(block), kFeedbackBlock, s, into)) {
                return nullptr;
            }
            made->set_block(block, s, rows(first_of(block), kFeedbackBlock), into);
        }
        return made;
    }

    /// The state has no numbers without feedback, and all K where it is joint.
    [[nodiscard]] std::unique_ptr<Feedback> apart(double damp, bool joint) const override {
        const size_t rank = joint ? static_cast<size_t>(lambda_.size()) : 0;
        auto made = std::make_unique<LowRankFeedback>(rank, n_hi(), blocks(), false);
        const auto kept = static_cast<Eigen::Index>(rank);
        for (size_t block = 0; block < blocks(); ++block) {
            const MatrixXd u = rows(first_of(block), kFeedbackBlock);
            const MatrixXd um = u * lambda_.asDiagonal();
            const MatrixXd s = part(first_of(block), kFeedbackBlock, um, damp);
            const Eigen::LLT<MatrixXd> factor(s);
            if (factor.info() != Eigen::Success) {
                return nullptr;
            }
            made->set_block(block, s, factor.solve(um).leftCols(kept), u.transpose().topRows(kept));
        }
        const auto count = static_cast<Eigen::Index>(n_hi());
        const MatrixXd gain = n_hi() > 0 ? side_band_gain(damp) : MatrixXd(0, lambda_.size());
        if (gain.rows() < count) {
            return nullptr;
        }
        made->set_side_band(rows(0, count).transpose().topRows(kept), gain.leftCols(kept));
        return made;
    }

    MatrixXd u_;       ///< cols x K, in commit order
    VectorXd lambda_;  ///< K
    VectorXd delta_;   ///< cols
    double mean_ = 0;  ///< of the diagonal
    RowMajorMatrix product_;
    RowMajorMatrix back_;
    std::vector<float> diagonal_;
    const LaneKernels& lanes_ = lane_kernels();
};

}  // namespace

std::unique_ptr<Covariance> make_covariance(const LowRank& sketch, std::span<const uint32_t> order,
                                            size_t n_hi) {
    if (sketch.eigvec.size() != sketch.eigval.size() * sketch.diag.size()) {
        throw Error(ErrorCode::usage,
                    fmt::format("{} eigenvector entries do not fit {} eigenvalues of {} inputs",
                                sketch.eigvec.size(), sketch.eigval.size(), sketch.diag.size()));
    }
    check_order(sketch.diag.size(), order, n_hi);
    return std::make_unique<LowRankCovariance>(sketch, order, n_hi);
}

}  // namespace kaiju::stats
