// Packed KAIJU1 matrices multiply as the decoder's weights do, alike on every instruction set.
#include "runtime/native/kaiju1_matrix.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "base/error.h"
#include "packed_product.h"
#include "support/random_kaiju1.h"

namespace kaiju::runtime {
namespace {

using kaiju::test::Exact;
using kaiju::test::multiply;
using kaiju::test::multiply_exactly;
using kaiju::test::random_kaiju1;
using kaiju::test::random_values;
using kaiju1_kernels::Kernels;

struct Shape {
    uint32_t rows;
    uint32_t n_hi;
    uint32_t n_blocks;
    uint8_t perm_kind;
};

// Around the group of 16 rows, the padded side-band, no side-band, no blocks.
const std::vector<Shape> kShapes = {{1, 0, 1, 0},   {15, 1, 2, 0}, {16, 24, 1, 0}, {17, 25, 3, 1},
                                    {31, 23, 4, 0}, {32, 7, 0, 0}, {33, 0, 5, 1},  {7, 49, 2, 1}};

class Kaiju1MatrixTest : public ::testing::TestWithParam<const Kernels*> {};

TEST_P(Kaiju1MatrixTest, F32ProductIsTheDecodersWeightsTimesTheInput) {
    for (const Shape& shape : kShapes) {
        const auto made = random_kaiju1(shape.rows, shape.rows, shape.n_hi, shape.n_blocks, shape.perm_kind);
        const codec::kaiju1::TensorView view(made.payload);
        const Kaiju1Matrix matrix(made.payload, Activations::f32, 1, *GetParam());
        for (const size_t tokens : {1, 2, 33}) {
            const auto x = random_values(tokens * made.layout.cols, tokens);
            const Exact exact = multiply_exactly(view, made.layout.rows, x, tokens);
            const auto y = multiply(matrix, x, tokens, 2);
            for (size_t i = 0; i < y.size(); ++i) {
                ASSERT_NEAR(y[i], exact.y[i], 2e-6 * exact.absolute[i]) << shape.rows << " rows, value " << i;
            }
        }
    }
}

TEST_P(Kaiju1MatrixTest, Int8ProductIsWithinTheRoundingOfTheInput) {
    for (const Shape& shape : kShapes) {
        const auto made = random_kaiju1(shape.rows, shape.rows, shape.n_hi, shape.n_blocks, shape.perm_kind);
        const codec::kaiju1::TensorView view(made.payload);
        const Kaiju1Matrix matrix(made.payload, Activations::int8, 1, *GetParam());
        for (const size_t tokens : {1, 2, 31, 32, 33, 65}) {
            auto x = random_values(tokens * made.layout.cols, 100 + tokens);
            // Multiples of 1/127 of a power of two within a block would be exact; any input is within half a
            // step of its block's scale, which is at most the largest input over 127.
            const Exact exact = multiply_exactly(view, made.layout.rows, x, tokens);
            const auto y = multiply(matrix, x, tokens, 3);
            double error = 0;
            double size = 0;
            for (size_t i = 0; i < y.size(); ++i) {
                error += std::abs(y[i] - exact.y[i]);
                size += exact.absolute[i];
                ASSERT_NEAR(y[i], exact.y[i], 0.6 * exact.absolute[i] + 1e-30);
            }
            EXPECT_LT(error, 0.02 * size) << shape.rows << " rows, " << tokens << " tokens";
        }
    }
}

TEST_P(Kaiju1MatrixTest, IntegersAreMultipliedExactly) {
    // Inputs that are integers up to the largest that is rounded to, which is in every block, are their own
    // rounding: 127 for the bulk, 32767 for the side-band.
    const auto made = random_kaiju1(5, 20, 48, 3, 1);
    const codec::kaiju1::TensorView view(made.payload);
    const Kaiju1Matrix matrix(made.payload, Activations::int8, 1, *GetParam());
    std::mt19937_64 random(7);
    constexpr size_t kTokens = 3;
    std::vector<float> x(kTokens * made.layout.cols);
    for (size_t t = 0; t < kTokens; ++t) {
        for (size_t i = 0; i < made.layout.cols; ++i) {
            const int limit = i < 48 ? 32767 : 127;
            // Prepared position i is column columns()[i].
            x[t * made.layout.cols + view.columns()[i]] = static_cast<float>(
                i % 24 == 0 ? -limit : static_cast<int>(random() % (2 * limit + 1)) - limit);
        }
    }
    const Exact exact = multiply_exactly(view, made.layout.rows, x, kTokens);
    const auto y = multiply(matrix, x, kTokens, 1);
    for (size_t i = 0; i < y.size(); ++i) {
        ASSERT_NEAR(y[i], exact.y[i], 1e-6 * exact.absolute[i]) << i;
    }
}

TEST_P(Kaiju1MatrixTest, BitsDependNeitherOnInstructionsNorThreadsNorCompany) {
    for (const Shape& shape : kShapes) {
        const auto made = random_kaiju1(shape.rows, shape.rows, shape.n_hi, shape.n_blocks, shape.perm_kind);
        for (const Activations activations : {Activations::int8, Activations::f32}) {
            const Kaiju1Matrix scalar(made.payload, activations, 1, kaiju1_kernels::kScalar);
            const Kaiju1Matrix matrix(made.payload, activations, 2, *GetParam());
            constexpr size_t kTokens = 37;
            const size_t cols = made.layout.cols;
            const auto x = random_values(kTokens * cols, 3);
            const auto together = multiply(matrix, x, kTokens, 1);
            EXPECT_EQ(together, multiply(scalar, x, kTokens, 1));
            EXPECT_EQ(together, multiply(matrix, x, kTokens, 4));
            for (size_t t = 0; t < kTokens; ++t) {
                const std::vector<float> one(x.begin() + t * cols, x.begin() + (t + 1) * cols);
                const auto alone = multiply(matrix, one, 1, 1);
                ASSERT_EQ(
                    std::memcmp(alone.data(), together.data() + t * shape.rows, shape.rows * sizeof(float)),
                    0)
                    << "token " << t;
            }
        }
    }
}

TEST_P(Kaiju1MatrixTest, WhatIsNotFiniteStaysVisible) {
    const auto made = random_kaiju1(1, 16, 0, 2, 0);
    const Kaiju1Matrix matrix(made.payload, Activations::int8, 1, *GetParam());
    for (const float bad : {std::nanf(""), INFINITY, -INFINITY}) {
        auto x = random_values(made.layout.cols, 1);
        x[5] = bad;
        for (const float y : multiply(matrix, x, 1, 1)) {
            EXPECT_TRUE(std::isnan(y));
        }
    }
    for (const float tiny : {0.0F, 1e-45F, 1e-38F, -1e-38F}) {
        const auto y = multiply(matrix, std::vector<float>(made.layout.cols, tiny), 1, 1);
        for (const float value : y) {
            EXPECT_LE(std::abs(value), 1e-30);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Kernels, Kaiju1MatrixTest,
                         ::testing::ValuesIn(available_kaiju1_kernels().begin(),
                                             available_kaiju1_kernels().end()),
                         [](const auto& kernels) { return test::kernels_name(kernels.param); });

TEST(Kaiju1Matrix, RefusesDamagedPayloads) {
    const auto made = random_kaiju1(1, 20, 24, 2, 0);
    const auto expect_refusal = [&](size_t offset, std::byte value, const char* part) {
        auto payload = made.payload;
        payload[offset] = value;
        try {
            const Kaiju1Matrix matrix(payload, Activations::int8, 1);
            ADD_FAILURE() << "packed with byte " << offset << " damaged";
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ErrorCode::bad_input);
            EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
        }
    };
    const size_t row_bytes = made.layout.row_bytes();
    const size_t last_row = made.layout.rows_offset() + 19 * row_bytes;
    expect_refusal(0, std::byte{0}, "magic");
    expect_refusal(last_row + row_bytes - 1, std::byte{81}, "row 19: block 1");
    expect_refusal(last_row + row_bytes - 2, std::byte{243}, "row 19: block 1");
    expect_refusal(last_row + 3, std::byte{0xFF}, "row 19: scales");
}

TEST(Kaiju1Matrix, SharesPreparationWhereColumnsAgree) {
    const auto first = random_kaiju1(1, 20, 24, 2, 0);
    const auto same = random_kaiju1(1, 20, 24, 2, 0);
    const auto other = random_kaiju1(2, 20, 24, 2, 0);
    const Kaiju1Matrix a(first.payload, Activations::int8, 1);
    EXPECT_TRUE(a.shares_preparation(Kaiju1Matrix(same.payload, Activations::int8, 1)));
    EXPECT_FALSE(a.shares_preparation(Kaiju1Matrix(same.payload, Activations::f32, 1)));
    EXPECT_FALSE(a.shares_preparation(Kaiju1Matrix(other.payload, Activations::int8, 1)));
}

}  // namespace
}  // namespace kaiju::runtime
