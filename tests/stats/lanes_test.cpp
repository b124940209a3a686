#include "stats/lanes.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace kaiju::stats {
namespace {

TEST(Lanes, EveryInstructionSetGivesTheBitsOfThePlainLoop) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (const auto simd : lattice::available_simd()) {
        const LaneKernels& kernels = lane_kernels(simd);
        EXPECT_EQ(kernels.simd, simd);
        for (const size_t m : {1U, 5U, 24U, 37U}) {
            for (const size_t n : {0U, 1U, 24U, 71U, 391U}) {
                const size_t stride = n + m % 3;
                std::vector<float> a(m * stride);
                std::vector<float> x(n * kLanes);
                std::vector<float> out(m * kLanes);
                for (auto* values : {&a, &x, &out}) {
                    std::generate(values->begin(), values->end(), [&] { return normal(random); });
                }
                std::vector<float> expected(out);
                for (size_t r = 0; r < m; ++r) {
                    for (size_t j = 0; j < n; ++j) {
                        for (size_t lane = 0; lane < kLanes; ++lane) {
                            expected[r * kLanes + lane] += a[r * stride + j] * x[j * kLanes + lane];
                        }
                    }
                }
                kernels.multiply_add(a.data(), stride, m, n, x.data(), out.data());
                EXPECT_EQ(out, expected) << lattice::simd_name(simd) << " " << m << " x " << n;

                std::vector<float> sums(kLanes);
                std::vector<float> expected_sums(kLanes, 0.0F);
                for (size_t i = 0; i < n * kLanes; ++i) {
                    expected_sums[i % kLanes] += x[i] * x[i];
                }
                kernels.dot(x.data(), x.data(), n, sums.data());
                EXPECT_EQ(sums, expected_sums) << lattice::simd_name(simd);
            }
        }
    }
}

}  // namespace
}  // namespace kaiju::stats
