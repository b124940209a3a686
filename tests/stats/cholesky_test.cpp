#include "stats/cholesky.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace kaiju::stats {
namespace {

/// B'B of a random (n + 8) x n matrix whose columns' sizes differ a thousandfold.
std::vector<double> make_gram(size_t n, uint32_t seed) {
    std::mt19937 random(seed);
    std::normal_distribution<double> normal;
    std::vector<double> b((n + 8) * n);
    for (size_t r = 0; r < n + 8; ++r) {
        for (size_t i = 0; i < n; ++i) {
            b[r * n + i] = normal(random) * std::pow(10.0, static_cast<double>(i % 4) - 2);
        }
    }
    std::vector<double> gram(n * n, 0.0);
    for (size_t r = 0; r < n + 8; ++r) {
        for (size_t i = 0; i < n; ++i) {
            for (size_t j = 0; j <= i; ++j) {
                gram[i * n + j] += b[r * n + i] * b[r * n + j];
            }
        }
    }
    return gram;
}

LowerTriangle triangle_of(const std::vector<double>& gram, size_t n) {
    LowerTriangle lower(n);
    for (size_t i = 0; i < n; ++i) {
        for (size_t j = 0; j <= i; ++j) {
            lower.at(i, j) = static_cast<float>(gram[i * n + j]);
        }
    }
    return lower;
}

TEST(Cholesky, ItsSquareIsTheMatrix) {
    for (const size_t n : {size_t{1}, size_t{15}, size_t{16}, size_t{96}, size_t{97}, size_t{331}}) {
        const auto gram = make_gram(n, static_cast<uint32_t>(n));
        LowerTriangle lower = triangle_of(gram, n);
        ASSERT_TRUE(lower.factorise(2)) << n;
        for (size_t i = 0; i < n; ++i) {
            for (size_t j = 0; j <= i; ++j) {
                double sum = 0;
                for (size_t k = 0; k <= j; ++k) {
                    sum += double{lower.at(i, k)} * double{lower.at(j, k)};
                }
                const double size = std::sqrt(gram[i * n + i] * gram[j * n + j]);
                ASSERT_NEAR(sum, gram[i * n + j], 2e-6 * size) << n << ": " << i << ", " << j;
            }
        }
    }
}

TEST(Cholesky, TheSameBitsForAnyNumberOfThreads) {
    constexpr size_t kSize = 300;
    const auto gram = make_gram(kSize, 5);
    LowerTriangle one = triangle_of(gram, kSize);
    LowerTriangle three = triangle_of(gram, kSize);
    ASSERT_TRUE(one.factorise(1));
    ASSERT_TRUE(three.factorise(3));
    for (size_t i = 0; i < kSize; ++i) {
        for (size_t j = 0; j <= i; ++j) {
            ASSERT_EQ(one.at(i, j), three.at(i, j)) << i << ", " << j;
        }
    }
}

TEST(Cholesky, RefusesWhatIsNotPositiveDefinite) {
    constexpr size_t kSize = 200;
    const auto gram = make_gram(kSize, 6);
    for (const size_t where : {size_t{0}, size_t{95}, size_t{150}, size_t{199}}) {
        for (const float value : {-1.0F, 0.0F, std::nanf(""), INFINITY}) {
            LowerTriangle lower = triangle_of(gram, kSize);
            lower.at(where, where) = value;
            EXPECT_FALSE(lower.factorise(2)) << where << ", " << value;
        }
    }
}

}  // namespace
}  // namespace kaiju::stats
