#include "eval/log_softmax.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>

namespace kaiju::eval {
namespace {

TEST(LogSoftmax, AgreesWithAHandComputedRow) {
    // exp(0) + exp(ln 2) + exp(ln 5) = 8, so the probabilities are 1/8, 2/8 and 5/8.
    const std::vector<float> logits = {0.0F, std::log(2.0F), std::log(5.0F)};
    const SoftmaxRow row = softmax_row(logits);
    EXPECT_EQ(row.argmax, 2);
    EXPECT_NEAR(row.log_probability(logits[0]), -3 * std::numbers::ln2, 1e-6);
    EXPECT_NEAR(row.log_probability(logits[1]), -2 * std::numbers::ln2, 1e-6);
    EXPECT_NEAR(row.log_probability(logits[2]), std::log(5.0 / 8.0), 1e-6);
}

TEST(LogSoftmax, ShiftsByAConstantChangeNothing) {
    const std::vector<float> logits = {1, 2, 3};
    const std::vector<float> shifted = {1025, 1026, 1027};
    EXPECT_EQ(softmax_row(logits).log_sum, softmax_row(shifted).log_sum);
    EXPECT_EQ(softmax_row(logits).log_probability(2), softmax_row(shifted).log_probability(1026));
}

TEST(LogSoftmax, TiesGoToTheLowerIdAndMinusInfinityIsProbabilityZero) {
    const float infinity = std::numeric_limits<float>::infinity();
    const SoftmaxRow row = softmax_row(std::vector<float>{-infinity, 4, 4});
    EXPECT_EQ(row.argmax, 1);
    EXPECT_NEAR(row.log_sum, std::numbers::ln2, 1e-12);
    EXPECT_EQ(row.log_probability(-infinity), -std::numeric_limits<double>::infinity());
}

double divergence(const std::vector<float>& reference, const std::vector<float>& model) {
    std::vector<float> exponentials;
    const SoftmaxRow reference_row = softmax_row(reference, exponentials);
    return kl_divergence(reference, reference_row, exponentials, model, softmax_row(model));
}

TEST(KlDivergence, IsZeroForEqualRowsAndForShiftedOnes) {
    const std::vector<float> logits = {-3.5F, 0.25F, 7.125F, 2};
    EXPECT_EQ(divergence(logits, logits), 0);
    EXPECT_NEAR(divergence(logits, {-1.5F, 2.25F, 9.125F, 4}), 0, 1e-12);
}

TEST(KlDivergence, AgreesWithAHandComputedRow) {
    // p = (1/2, 1/2), q = (1/4, 3/4): 1/2 ln 2 + 1/2 ln(2/3).
    EXPECT_NEAR(divergence({0, 0}, {0, std::log(3.0F)}), 0.5 * std::numbers::ln2 + 0.5 * std::log(2.0 / 3.0),
                1e-7);
}

TEST(KlDivergence, LeavesOutWhatHasNoProbability) {
    const float infinity = std::numeric_limits<float>::infinity();
    EXPECT_NEAR(divergence({-infinity, 0, 0}, {-infinity, 0, 0}), 0, 1e-12);
    EXPECT_EQ(divergence({0, 0}, {-infinity, 0}), infinity);
}

TEST(Ranks, CountFromOneAndBreakTiesByIndex) {
    const std::vector<float> logits = {2, 5, 5, 1};
    EXPECT_EQ(rank_of(logits, 1), 1U);
    EXPECT_EQ(rank_of(logits, 2), 2U);
    EXPECT_EQ(rank_of(logits, 0), 3U);
    EXPECT_EQ(rank_of(logits, 3), 4U);
    EXPECT_EQ(top_tokens(logits, 3), (std::vector<int32_t>{1, 2, 0}));
    EXPECT_EQ(top_tokens(logits, 99).size(), 4U);
}

}  // namespace
}  // namespace kaiju::eval
