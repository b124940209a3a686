#include "stats/gram.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"
#include "samples.h"

namespace kaiju::stats {
namespace {

/// Adds the samples in pieces of `piece` rows.
GramAccumulator gram_of(const std::vector<float>& values, size_t cols, size_t piece, int threads) {
    GramAccumulator gram(static_cast<uint32_t>(cols));
    Panels panels;
    const size_t rows = values.size() / cols;
    for (size_t first = 0; first < rows; first += piece) {
        panels.pack(values.data() + first * cols, std::min(piece, rows - first), cols, cols, threads);
        gram.add(panels, threads);
    }
    return gram;
}

TEST(Gram, is_the_sum_of_all_products_at_every_width) {
    for (const size_t cols : {1, 2, 31, 32, 33, 63, 64, 65, 100, 144}) {
        for (const size_t rows : {1, 3, 127, 128, 129, 300}) {
            const auto values = test::samples(rows, cols, 3, static_cast<unsigned>(cols * 1000 + rows));
            const GramAccumulator gram = gram_of(values, cols, 128, 2);
            EXPECT_EQ(gram.samples(), rows);
            EXPECT_LT(test::largest_difference(gram.mean(), test::slow_moments(values, cols), cols), 2e-6)
                << rows << " x " << cols;
        }
    }
}

TEST(Gram, the_diagonal_is_exact) {
    const auto values = test::samples(500, 40, 2, 7);
    const auto slow = test::slow_moments(values, 40);
    const auto diagonal = gram_of(values, 40, 64, 1).diagonal();
    for (size_t i = 0; i < 40; ++i) {
        EXPECT_NEAR(diagonal[i] / slow[i * 40 + i], 1, 1e-13);
    }
}

TEST(Gram, threads_do_not_change_a_bit) {
    const auto values = test::samples(700, 500, 3, 3);
    const auto one = gram_of(values, 500, 256, 1).mean();
    for (const int threads : {2, 3, 7}) {
        EXPECT_EQ(gram_of(values, 500, 256, threads).mean(), one) << threads;
    }
}

TEST(Gram, packed_is_the_lower_triangle) {
    const auto values = test::samples(50, 37, 2, 5);
    const GramAccumulator gram = gram_of(values, 37, 50, 1);
    const auto dense = gram.mean();
    const auto packed = gram.packed_mean();
    ASSERT_EQ(packed.size(), 37U * 38 / 2);
    size_t at = 0;
    for (size_t i = 0; i < 37; ++i) {
        for (size_t j = 0; j <= i; ++j) {
            EXPECT_EQ(packed[at++], static_cast<float>(dense[i * 37 + j]));
            EXPECT_EQ(dense[i * 37 + j], dense[j * 37 + i]);
        }
    }
}

TEST(Gram, goes_on_from_a_saved_state) {
    const auto values = test::samples(256, 70, 2, 9);
    GramAccumulator first = gram_of({values.begin(), values.begin() + 128 * 70}, 70, 128, 1);
    ByteWriter out;
    first.save(out);
    GramAccumulator second(70);
    ByteReader in(out.bytes());
    second.load(in);
    EXPECT_EQ(in.remaining(), 0U);
    Panels panels;
    panels.pack(values.data() + 128 * 70, 128, 70, 70, 1);
    second.add(panels, 1);
    EXPECT_EQ(second.mean(), gram_of(values, 70, 128, 1).mean());
    EXPECT_EQ(second.samples(), 256U);
    ByteReader cut(Bytes(out.bytes()).first(out.bytes().size() - 1));
    EXPECT_THROW(second.load(cut), Error);
}

TEST(Gram, refuses_what_is_not_finite) {
    std::vector<float> values(64, 1.0F);
    values[40] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_THROW(gram_of(values, 32, 2, 1), Error);
    values[40] = std::numeric_limits<float>::infinity();
    EXPECT_THROW(gram_of(values, 32, 2, 1), Error);
    EXPECT_EQ(GramAccumulator(5).mean(), std::vector<double>(25));
}

TEST(Panels, rows_with_gaps_and_the_transpose) {
    constexpr size_t kRows = 5, kCols = 70, kStride = 73;
    std::vector<float> values(kRows * kStride);
    for (size_t i = 0; i < values.size(); ++i) {
        values[i] = static_cast<float>(i);
    }
    Panels panels;
    panels.pack(values.data(), kRows, kCols, kStride, 2);
    Panels transposed;
    transposed.pack_transposed(panels, 2);
    ASSERT_EQ(transposed.rows(), kCols);
    ASSERT_EQ(transposed.cols(), kRows);
    for (size_t r = 0; r < kRows; ++r) {
        for (size_t i = 0; i < kCols; ++i) {
            EXPECT_EQ(panels.at(r, i), values[r * kStride + i]);
            EXPECT_EQ(transposed.at(i, r), values[r * kStride + i]);
        }
        for (size_t i = kCols; i < panels.count() * kPanel; ++i) {
            EXPECT_EQ(panels.at(r, i), 0);
        }
    }
}

}  // namespace
}  // namespace kaiju::stats
