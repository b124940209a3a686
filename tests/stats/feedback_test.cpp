#include "stats/feedback.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

#include "base/error.h"

namespace kaiju::stats {
namespace {

constexpr size_t kHi = 11;
constexpr size_t kBlocks = 4;
constexpr size_t kDim = kHi + kBlocks * kFeedbackBlock;
constexpr size_t kRank = 7;

/// A sketch, and the matrix that it stands for.
struct Spectrum {
    std::vector<float> diag;
    std::vector<float> eigval;
    std::vector<float> eigvec;
    std::vector<float> dense;

    [[nodiscard]] LowRank low_rank() const { return {.diag = diag, .eigval = eigval, .eigvec = eigvec}; }
};

Spectrum make_spectrum(uint32_t seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    Spectrum made;
    made.eigvec.resize(kRank * kDim);
    for (size_t k = 0; k < kRank; ++k) {  // Gram-Schmidt
        float* const row = made.eigvec.data() + k * kDim;
        std::generate_n(row, kDim, [&] { return normal(random); });
        for (size_t other = 0; other <= k; ++other) {
            const float* const before = made.eigvec.data() + other * kDim;
            const float along = other < k ? std::inner_product(row, row + kDim, before, 0.0F) : 0;
            for (size_t i = 0; i < kDim; ++i) {
                row[i] -= along * (other < k ? before[i] : 0);
            }
        }
        const float norm = std::sqrt(std::inner_product(row, row + kDim, row, 0.0F));
        std::for_each(row, row + kDim, [norm](float& v) { v /= norm; });
        made.eigval.push_back(100.0F / static_cast<float>(k + 1));
    }
    made.dense.assign(kDim * kDim, 0);
    for (size_t i = 0; i < kDim; ++i) {
        for (size_t j = 0; j < kDim; ++j) {
            double sum = i == j ? 0.5 + 0.01 * static_cast<double>(i % 7) : 0;
            for (size_t k = 0; k < kRank; ++k) {
                sum += static_cast<double>(made.eigval[k]) * made.eigvec[k * kDim + i] *
                       made.eigvec[k * kDim + j];
            }
            made.dense[i * kDim + j] = static_cast<float>(sum);
        }
        made.diag.push_back(made.dense[i * kDim + i]);
    }
    return made;
}

std::vector<uint32_t> shuffled_order(uint32_t seed) {
    std::vector<uint32_t> order(kDim);
    std::iota(order.begin(), order.end(), 0U);
    std::shuffle(order.begin(), order.end(), std::mt19937(seed));
    return order;
}

std::vector<float> random_lanes(size_t count, uint32_t seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::vector<float> values(count * kLanes);
    std::generate(values.begin(), values.end(), [&] { return normal(random); });
    return values;
}

/// Commits everything and returns each block's shift, before it was committed.
std::vector<std::vector<float>> shifts_of(const Feedback& feedback, const std::vector<float>& errors) {
    std::vector<float> state(feedback.state_size() * kLanes, 0.0F);
    feedback.commit_side_band(errors.data(), state.data());
    std::vector<std::vector<float>> shifts;
    shifts.reserve(kBlocks);
    for (size_t block = 0; block < kBlocks; ++block) {
        shifts.emplace_back(kFeedbackBlock * kLanes);
        feedback.shift(block, state.data(), shifts.back().data());
        feedback.commit(block, errors.data() + (kHi + block * kFeedbackBlock) * kLanes, state.data());
    }
    return shifts;
}

/// x'Ax of one lane.
double quadratic(const float* matrix, const std::vector<double>& x) {
    double sum = 0;
    for (size_t i = 0; i < x.size(); ++i) {
        for (size_t j = 0; j < x.size(); ++j) {
            sum += matrix[i * x.size() + j] * x[i] * x[j];
        }
    }
    return sum;
}

TEST(Feedback, EliminationFromTheLastBlockSplitsTheQuadraticForm) {
    // With no error in the side-band, e'Ŝe = Σ_k (e_k + shift_k)' S_k (e_k + shift_k).
    const Spectrum spectrum = make_spectrum(1);
    std::vector<uint32_t> order(kDim);
    std::iota(order.begin(), order.end(), 0U);
    const auto covariance = make_covariance(std::span<const float>(spectrum.dense), order, kHi);
    double damp = 0;
    const auto feedback = covariance->sequential(Fold::ldlq, SideBand::first, 0, damp);
    EXPECT_EQ(damp, 0);
    auto errors = random_lanes(kDim, 2);
    std::fill_n(errors.begin(), kHi * kLanes, 0.0F);
    const auto shifts = shifts_of(*feedback, errors);
    for (size_t lane = 0; lane < kLanes; ++lane) {
        std::vector<double> e(kDim);
        for (size_t i = 0; i < kDim; ++i) {
            e[i] = errors[i * kLanes + lane];
        }
        double sum = 0;
        for (size_t block = 0; block < kBlocks; ++block) {
            std::vector<double> moved(kFeedbackBlock);
            for (size_t i = 0; i < kFeedbackBlock; ++i) {
                moved[i] = e[kHi + block * kFeedbackBlock + i] + shifts[block][i * kLanes + lane];
            }
            sum += quadratic(feedback->metric(block), moved);
        }
        const double whole = quadratic(spectrum.dense.data(), e);
        EXPECT_NEAR(sum, whole, 1e-4 * whole) << "lane " << lane;
    }
}

TEST(Feedback, ASideBandThatComesLastIsTheLastTermOfTheSplit) {
    const Spectrum spectrum = make_spectrum(16);
    std::vector<uint32_t> order(kDim);
    std::iota(order.begin(), order.end(), 0U);
    const auto covariance = make_covariance(std::span<const float>(spectrum.dense), order, kHi);
    double damp = 0;
    const auto feedback = covariance->sequential(Fold::ldlq, SideBand::last, 0, damp);
    const auto errors = random_lanes(kDim, 17);
    std::vector<float> state(feedback->state_size() * kLanes, 0.0F);
    std::vector<float> shift(std::max(kHi, kFeedbackBlock) * kLanes);
    std::vector<double> sums(kLanes, 0.0);
    const auto add = [&](const float* metric, size_t stride, size_t count, const float* e) {
        for (size_t lane = 0; lane < kLanes; ++lane) {
            for (size_t i = 0; i < count; ++i) {
                for (size_t j = 0; j < count; ++j) {
                    sums[lane] += static_cast<double>(metric[i * stride + j]) *
                                  (e[i * kLanes + lane] + shift[i * kLanes + lane]) *
                                  (e[j * kLanes + lane] + shift[j * kLanes + lane]);
                }
            }
        }
    };
    for (size_t block = 0; block < kBlocks; ++block) {
        const float* const e = errors.data() + (kHi + block * kFeedbackBlock) * kLanes;
        feedback->shift(block, state.data(), shift.data());
        add(feedback->metric(block), kFeedbackBlock, kFeedbackBlock, e);
        feedback->commit(block, e, state.data());
    }
    feedback->shift_side_band(state.data(), shift.data());
    add(spectrum.dense.data(), kDim, kHi, errors.data());
    for (size_t lane = 0; lane < kLanes; ++lane) {
        std::vector<double> e(kDim);
        for (size_t i = 0; i < kDim; ++i) {
            e[i] = errors[i * kLanes + lane];
        }
        const double whole = quadratic(spectrum.dense.data(), e);
        EXPECT_NEAR(sums[lane], whole, 1e-4 * whole) << "lane " << lane;
    }
}

using Form = std::pair<Fold, SideBand>;
class BothForms : public testing::TestWithParam<Form> {};

TEST_P(BothForms, SketchAndFullMatrixGiveTheSameFeedback) {
    const auto [fold, side_band] = GetParam();
    const Spectrum spectrum = make_spectrum(3);
    const auto order = shuffled_order(4);
    double damp_low = 0;
    double damp_full = 0;
    const auto low =
        make_covariance(spectrum.low_rank(), order, kHi)->sequential(fold, side_band, 0.01, damp_low);
    const auto full = make_covariance(std::span<const float>(spectrum.dense), order, kHi)
                          ->sequential(fold, side_band, 0.01, damp_full);
    EXPECT_EQ(damp_low, 0.01);
    EXPECT_EQ(damp_full, 0.01);
    EXPECT_EQ(low->errors_from_target(), fold == Fold::published);
    auto errors = random_lanes(kDim, 5);
    if (side_band == SideBand::last) {  // nothing of it is committed while blocks are
        std::fill_n(errors.begin(), kHi * kLanes, 0.0F);
    }
    const auto low_shifts = shifts_of(*low, errors);
    const auto full_shifts = shifts_of(*full, errors);
    for (size_t block = 0; block < kBlocks; ++block) {
        for (size_t i = 0; i < low_shifts[block].size(); ++i) {
            EXPECT_NEAR(low_shifts[block][i], full_shifts[block][i], 2e-3) << "block " << block;
        }
        for (size_t i = 0; i < kFeedbackBlock * kFeedbackBlock; ++i) {
            EXPECT_NEAR(low->metric(block)[i], full->metric(block)[i], 1e-3);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Folds, BothForms,
                         testing::Values(Form{Fold::ldlq, SideBand::first}, Form{Fold::ldlq, SideBand::last},
                                         Form{Fold::published, SideBand::first},
                                         Form{Fold::none, SideBand::first}),
                         [](const auto& tested) {
                             return std::string(fold_name(tested.param.first)) +
                                    (tested.param.second == SideBand::last ? "Last" : "");
                         });

TEST(Feedback, JointShiftIsTheMinimumWithTheOthersFixed) {
    const Spectrum spectrum = make_spectrum(6);
    const auto order = shuffled_order(7);
    const auto errors = random_lanes(kDim, 8);
    for (const bool sketch : {true, false}) {
        const auto covariance = sketch ? make_covariance(spectrum.low_rank(), order, kHi)
                                       : make_covariance(std::span<const float>(spectrum.dense), order, kHi);
        const auto joint = covariance->joint(0);
        std::vector<float> state(joint->state_size() * kLanes, 0.0F);
        joint->commit_side_band(errors.data(), state.data());
        for (size_t block = 0; block < kBlocks; ++block) {
            joint->commit(block, errors.data() + (kHi + block * kFeedbackBlock) * kLanes, state.data());
        }
        const size_t changed = 2;
        const size_t first = kHi + changed * kFeedbackBlock;
        std::vector<float> best(errors);
        std::vector<float> negative(kFeedbackBlock * kLanes);
        for (size_t i = 0; i < negative.size(); ++i) {
            negative[i] = -errors[first * kLanes + i];
        }
        joint->commit(changed, negative.data(), state.data());
        std::vector<float> shift(kFeedbackBlock * kLanes);
        joint->shift(changed, state.data(), shift.data());
        for (size_t i = 0; i < shift.size(); ++i) {
            best[first * kLanes + i] = -shift[i];
        }
        // At the minimum the gradient Ŝe vanishes over the block.
        std::vector<float> gradient(kDim * kLanes);
        covariance->times(best.data(), gradient.data());
        for (size_t i = 0; i < kFeedbackBlock * kLanes; ++i) {
            EXPECT_NEAR(gradient[first * kLanes + i], 0, 2e-3) << (sketch ? "sketch" : "full");
        }
    }
}

TEST(Feedback, TimesIsTheMatrixProduct) {
    const Spectrum spectrum = make_spectrum(9);
    const auto order = shuffled_order(10);
    const auto x = random_lanes(kDim, 11);
    for (const bool sketch : {true, false}) {
        const auto covariance = sketch ? make_covariance(spectrum.low_rank(), order, kHi)
                                       : make_covariance(std::span<const float>(spectrum.dense), order, kHi);
        std::vector<float> product(kDim * kLanes);
        covariance->times(x.data(), product.data());
        for (size_t i = 0; i < kDim; ++i) {
            double expected = 0;
            for (size_t j = 0; j < kDim; ++j) {
                expected +=
                    static_cast<double>(spectrum.dense[order[i] * kDim + order[j]]) * x[j * kLanes + 3];
            }
            EXPECT_NEAR(product[i * kLanes + 3], expected, 1e-3);
        }
    }
}

TEST(Feedback, HalfTimesAndItsMirrorImageAreTheMatrix) {
    const Spectrum spectrum = make_spectrum(9);
    const auto order = shuffled_order(10);
    const auto vectors = random_lanes(2 * kDim, 11);  // x, then y
    const float* const x = vectors.data();
    const float* const y = x + kDim * kLanes;
    for (const bool sketch : {true, false}) {
        const auto covariance = sketch ? make_covariance(spectrum.low_rank(), order, kHi)
                                       : make_covariance(std::span<const float>(spectrum.dense), order, kHi);
        std::vector<float> whole(vectors.size());
        std::vector<float> half(vectors.size());
        covariance->times(x, whole.data(), 2);
        covariance->half_times(x, half.data(), 2);
        for (size_t lane = 0; lane < kLanes; ++lane) {
            double expected = 0;
            double sum = 0;
            for (size_t at = lane; at < kDim * kLanes; at += kLanes) {
                expected += double{x[at]} * double{whole[kDim * kLanes + at]};
                sum += double{x[at]} * double{half[kDim * kLanes + at]} + double{y[at]} * double{half[at]};
            }
            EXPECT_NEAR(sum, expected, 1e-3);
        }
    }
}

TEST(Feedback, DampsUntilItIsPositiveDefiniteOrSaysSo) {
    Spectrum spectrum = make_spectrum(12);
    const auto order = shuffled_order(13);
    for (size_t i = 0; i < kDim; ++i) {
        spectrum.dense[i * kDim + i] -= 0.7F;
    }
    double damp = 0;
    EXPECT_NE(make_covariance(std::span<const float>(spectrum.dense), order, kHi)
                  ->sequential(Fold::ldlq, SideBand::first, 0, damp),
              nullptr);
    EXPECT_GT(damp, 0);
    for (size_t i = 0; i < kDim; ++i) {
        spectrum.dense[i * kDim + i] = 1e-3F;
    }
    EXPECT_THROW((void)make_covariance(std::span<const float>(spectrum.dense), order, kHi)
                     ->sequential(Fold::ldlq, SideBand::first, 0, damp),
                 Error);
}

TEST(Feedback, RefusesOrdersThatAreNone) {
    const Spectrum spectrum = make_spectrum(14);
    auto order = shuffled_order(15);
    EXPECT_THROW((void)make_covariance(spectrum.low_rank(), order, kHi + 1), Error);
    order[0] = order[1];
    EXPECT_THROW((void)make_covariance(spectrum.low_rank(), order, kHi), Error);
    EXPECT_THROW((void)fold_of("backwards"), Error);
}

}  // namespace
}  // namespace kaiju::stats
