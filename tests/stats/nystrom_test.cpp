#include "stats/nystrom.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "samples.h"
#include "stats/gram.h"

namespace kaiju::stats {
namespace {

NystromAccumulator nystrom_of(const std::vector<float>& values, uint32_t cols, uint32_t rank, size_t piece,
                              int threads) {
    NystromAccumulator nystrom(gaussian_panels(cols, rank));
    Panels panels;
    const size_t rows = values.size() / cols;
    for (size_t first = 0; first < rows; first += piece) {
        panels.pack(values.data() + first * cols, std::min(piece, rows - first), cols, cols, threads);
        nystrom.add(panels, threads);
    }
    return nystrom;
}

TEST(Nystrom, the_rank_grows_with_k) {
    EXPECT_EQ(nystrom_rank(18944, 0), 128U);
    EXPECT_EQ(nystrom_rank(18944, 64), 128U);
    EXPECT_EQ(nystrom_rank(18944, 65), 160U);
    EXPECT_EQ(nystrom_rank(18944, 128), 256U);
    EXPECT_EQ(nystrom_rank(100, 128), 100U);
}

TEST(Nystrom, the_random_matrix_is_normal_and_fixed) {
    const auto omega = gaussian_panels(1000, 64);
    double sum = 0;
    double squares = 0;
    double fourth = 0;
    for (size_t i = 0; i < 1000; ++i) {
        for (size_t j = 0; j < 64; ++j) {
            const double value = omega->at(i, j);
            sum += value;
            squares += value * value;
            fourth += value * value * value * value;
        }
    }
    EXPECT_NEAR(sum / 64000, 0, 0.02);
    EXPECT_NEAR(squares / 64000, 1, 0.03);
    EXPECT_NEAR(fourth / 64000, 3, 0.2);
    const auto wider = gaussian_panels(1000, 128);
    EXPECT_EQ(wider->at(999, 63), omega->at(999, 63)) << "a column does not depend on the rank";
    EXPECT_NE(omega->at(0, 0), omega->at(0, 1));
}

TEST(Nystrom, finds_the_largest_eigenpairs_where_the_rest_is_small) {
    for (const uint32_t cols : {40U, 200U, 330U}) {
        const auto values = test::samples(600, cols, 6, cols);
        const NystromAccumulator nystrom = nystrom_of(values, cols, std::min(cols, 128U), 200, 2);
        const auto slow = test::slow_moments(values, cols);
        const EigenPairs exact = largest_eigenpairs(slow, cols, 6);
        const EigenPairs found = nystrom.largest_eigenpairs(8);
        for (size_t j = 0; j < 6; ++j) {
            EXPECT_NEAR(found.values[j] / exact.values[j], 1, 2e-2) << cols << " columns, pair " << j;
            EXPECT_LT(found.values[j], exact.values[j] * (1 + 1e-4)) << "never more than the matrix";
            double product = 0;
            for (size_t i = 0; i < cols; ++i) {
                product += found.vectors[j * cols + i] * exact.vectors[j * cols + i];
            }
            EXPECT_GT(product, 0.99) << cols << " columns, pair " << j;
        }
        for (size_t j = 0; j < 8; ++j) {
            for (size_t other = 0; other <= j; ++other) {
                double product = 0;
                for (size_t i = 0; i < cols; ++i) {
                    product += found.vectors[j * cols + i] * found.vectors[other * cols + i];
                }
                EXPECT_NEAR(product, other == j ? 1 : 0, 1e-6);
            }
        }
        const auto diagonal = nystrom.diagonal();
        for (size_t i = 0; i < cols; ++i) {
            EXPECT_NEAR(diagonal[i] / slow[i * cols + i], 1, 1e-12);
        }
    }
}

TEST(Nystrom, threads_do_not_change_a_bit_and_a_state_goes_on) {
    const auto values = test::samples(512, 150, 4, 1);
    const EigenPairs one = nystrom_of(values, 150, 64, 256, 1).largest_eigenpairs(16);
    EXPECT_EQ(nystrom_of(values, 150, 64, 256, 3).largest_eigenpairs(16).vectors, one.vectors);
    NystromAccumulator half = nystrom_of({values.begin(), values.begin() + 256 * 150}, 150, 64, 256, 2);
    ByteWriter out;
    half.save(out);
    NystromAccumulator resumed(gaussian_panels(150, 64));
    ByteReader in(out.bytes());
    resumed.load(in);
    Panels panels;
    panels.pack(values.data() + 256 * 150, 256, 150, 150, 2);
    resumed.add(panels, 2);
    EXPECT_EQ(resumed.largest_eigenpairs(16).vectors, one.vectors);
    EXPECT_EQ(resumed.samples(), 512U);
}

TEST(Nystrom, nothing_and_zeros_give_orthonormal_vectors) {
    for (const size_t rows : {0, 5}) {
        const NystromAccumulator nystrom = nystrom_of(std::vector<float>(rows * 50), 50, 32, 5, 1);
        const EigenPairs pairs = nystrom.largest_eigenpairs(3);
        EXPECT_EQ(pairs.values, std::vector<double>(3));
        EXPECT_EQ(pairs.vectors[0], 1);
        EXPECT_EQ(pairs.vectors[51], 1);
    }
    // Of lower rank than the sketch.
    const auto values = test::samples(3, 50, 1, 2);
    const EigenPairs pairs = nystrom_of(values, 50, 32, 3, 1).largest_eigenpairs(5);
    EXPECT_GT(pairs.values[0], 0);
    EXPECT_NEAR(pairs.values[4] / pairs.values[0], 0, 1e-4);
}

}  // namespace
}  // namespace kaiju::stats
