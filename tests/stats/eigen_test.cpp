#include "stats/eigen.h"

#include <gtest/gtest.h>

#include <cmath>

#include "samples.h"

namespace kaiju::stats {
namespace {

/// |A v - λ v| of pair j, relative to the largest eigenvalue.
double residual(const std::vector<double>& matrix, size_t dim, const EigenPairs& pairs, size_t j) {
    double sum = 0;
    for (size_t i = 0; i < dim; ++i) {
        double product = 0;
        for (size_t c = 0; c < dim; ++c) {
            product += matrix[i * dim + c] * pairs.vectors[j * dim + c];
        }
        sum += std::pow(product - pairs.values[j] * pairs.vectors[j * dim + i], 2);
    }
    return std::sqrt(sum) / pairs.values[0];
}

void expect_right(const std::vector<double>& matrix, size_t dim, size_t k) {
    const EigenPairs pairs = largest_eigenpairs(matrix, dim, k);
    ASSERT_EQ(pairs.values.size(), k);
    ASSERT_EQ(pairs.vectors.size(), k * dim);
    for (size_t j = 0; j < k; ++j) {
        EXPECT_LT(residual(matrix, dim, pairs, j), 1e-7) << dim << " columns, pair " << j;
        EXPECT_LE(pairs.values[j], j == 0 ? pairs.values[0] : pairs.values[j - 1]);
        size_t largest = 0;
        for (size_t other = 0; other <= j; ++other) {
            double product = 0;
            for (size_t i = 0; i < dim; ++i) {
                product += pairs.vectors[j * dim + i] * pairs.vectors[other * dim + i];
            }
            EXPECT_NEAR(product, other == j ? 1 : 0, 1e-8);
        }
        for (size_t i = 0; i < dim; ++i) {
            largest = std::fabs(pairs.vectors[j * dim + i]) > std::fabs(pairs.vectors[j * dim + largest])
                          ? i
                          : largest;
        }
        EXPECT_GT(pairs.vectors[j * dim + largest], 0);
    }
}

TEST(Eigen, the_whole_decomposition_and_the_iteration_are_right) {
    for (const size_t dim : {1, 2, 48, 300, 400}) {
        const auto matrix =
            test::slow_moments(test::samples(dim + 20, dim, 4, static_cast<unsigned>(dim)), dim);
        expect_right(matrix, dim, std::min<size_t>(dim, 8));
    }
}

TEST(Eigen, both_ways_agree) {
    constexpr size_t kDim = 300;
    const auto matrix = test::slow_moments(test::samples(400, kDim, 4, 11), kDim);
    const EigenPairs iterated = largest_eigenpairs(matrix, kDim, 16);
    const EigenPairs whole = largest_eigenpairs(matrix, kDim, kDim);
    double sum = 0;
    for (size_t j = 0; j < kDim; ++j) {
        sum += whole.values[j];
        if (j < 16) {
            EXPECT_NEAR(iterated.values[j] / whole.values[j], 1, 1e-9);
        }
    }
    double trace = 0;
    for (size_t i = 0; i < kDim; ++i) {
        trace += matrix[i * kDim + i];
    }
    EXPECT_NEAR(sum / trace, 1, 1e-10);
    EXPECT_EQ(largest_eigenpairs(matrix, kDim, 16).vectors, iterated.vectors) << "no randomness";
}

TEST(Eigen, degenerate_matrices) {
    const EigenPairs zero = largest_eigenpairs(std::vector<double>(300 * 300), 300, 4);
    EXPECT_EQ(zero.values, std::vector<double>(4));
    std::vector<double> rank_one(300 * 300);
    for (size_t i = 0; i < 300; ++i) {
        for (size_t j = 0; j < 300; ++j) {
            rank_one[i * 300 + j] = 1;
        }
    }
    expect_right(rank_one, 300, 4);
    std::vector<double> identity(300 * 300);
    for (size_t i = 0; i < 300; ++i) {
        identity[i * 301] = 2;
    }
    expect_right(identity, 300, 4);
    EXPECT_TRUE(largest_eigenpairs(identity, 300, 0).values.empty());
}

TEST(Eigen, the_sign_rule) {
    std::vector<double> vectors = {0.5, -0.5, 0.1, /**/ -0.7, 0.7, 0, /**/ 0.1, -0.2, 0.1};
    fix_signs(vectors, 3);
    EXPECT_EQ(vectors, (std::vector<double>{0.5, -0.5, 0.1, 0.7, -0.7, 0, -0.1, 0.2, -0.1}));
}

}  // namespace
}  // namespace kaiju::stats
