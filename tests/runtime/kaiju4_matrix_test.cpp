// Packed KAIJU4 matrices multiply as the decoder's weights do, alike on every instruction set.
#include "runtime/native/kaiju4_matrix.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "base/error.h"
#include "packed_product.h"
#include "support/random_kaiju4.h"

namespace kaiju::runtime {
namespace {

using kaiju::test::Exact;
using kaiju::test::multiply;
using kaiju::test::multiply_exactly;
using kaiju::test::random_kaiju4;
using kaiju::test::random_values;
using kaiju4_kernels::Kernels;

struct Shape {
    uint32_t rows;
    uint32_t cols;
};

// Around the group of 16 rows, pairs of groups, padded last blocks, and runs of the rotation that are shorter
// than a block, as long as the row, and no multiple of a block.
const std::vector<Shape> kShapes = {{1, 24}, {15, 40}, {16, 576}, {17, 1536}, {33, 172}, {47, 1}, {5, 3072}};
const std::vector<size_t> kTokens = {1, 3, 33};

class Kaiju4MatrixTest : public ::testing::TestWithParam<const Kernels*> {
  protected:
    /// For every width of indices and every shape.
    template <typename Check>
    static void for_all(Check check) {
        for (int g = lattice::kLeastIndexBits; g <= lattice::kMostIndexBits; ++g) {
            for (const Shape& shape : kShapes) {
                SCOPED_TRACE(codec::kaiju4::type_name(g) + ", " + std::to_string(shape.rows) + " x " +
                             std::to_string(shape.cols));
                check(random_kaiju4(shape.rows + static_cast<uint64_t>(g), shape.rows, shape.cols, g), shape);
            }
        }
    }
};

TEST_P(Kaiju4MatrixTest, F32ProductIsTheDecodersWeightsTimesTheInput) {
    for_all([](const std::vector<std::byte>& payload, const Shape& shape) {
        const codec::kaiju4::TensorView view{Bytes(payload)};
        const Kaiju4Matrix matrix(payload, Activations::f32, 1, *GetParam());
        for (const size_t tokens : kTokens) {
            const auto x = random_values(tokens * shape.cols, tokens);
            const Exact exact = multiply_exactly(view, shape.rows, x, tokens);
            const auto y = multiply(matrix, x, tokens, 2);
            for (size_t i = 0; i < y.size(); ++i) {
                ASSERT_NEAR(y[i], exact.y[i], 2e-6 * exact.norms[i]) << "value " << i;
            }
        }
    });
}

TEST_P(Kaiju4MatrixTest, Int8ProductIsWithinTheRoundingOfTheInput) {
    // An input is half a step off at most, 1/254 of the largest of its block, whose weights add up to at most
    // sqrt(24) times their norm.
    const double bound = std::sqrt(24.0) / 254 + 1e-5;
    for_all([&](const std::vector<std::byte>& payload, const Shape& shape) {
        const codec::kaiju4::TensorView view{Bytes(payload)};
        const Kaiju4Matrix matrix(payload, Activations::int8, 1, *GetParam());
        for (const size_t tokens : kTokens) {
            const auto x = random_values(tokens * shape.cols, 100 + tokens);
            const Exact exact = multiply_exactly(view, shape.rows, x, tokens);
            const auto y = multiply(matrix, x, tokens, 3);
            for (size_t i = 0; i < y.size(); ++i) {
                ASSERT_NEAR(y[i], exact.y[i], bound * exact.norms[i]) << "value " << i;
            }
        }
    });
}

TEST_P(Kaiju4MatrixTest, IntegersAreMultipliedExactly) {
    // Rotated inputs that are integers up to 127, which is in every block, are their own rounding. With runs
    // of 64 the rotation only divides by 8, so the inputs that become them are exact.
    constexpr uint32_t kCols = 192;
    for (int g = lattice::kLeastIndexBits; g <= lattice::kMostIndexBits; ++g) {
        const auto payload = random_kaiju4(5, 20, kCols, g);
        const codec::kaiju4::TensorView view{Bytes(payload)};
        const codec::Rotation rotation(kCols, view.seed());
        ASSERT_EQ(rotation.span(), 64U);
        const Kaiju4Matrix matrix(payload, Activations::int8, 1, *GetParam());
        std::mt19937_64 random(7);
        for (const size_t tokens : kTokens) {
            std::vector<float> x(tokens * kCols);
            for (size_t t = 0; t < tokens; ++t) {
                float* const row = x.data() + t * kCols;
                for (size_t i = 0; i < kCols; ++i) {
                    // All of the largest size in the first token: what would not fit an intermediate sum
                    // shows.
                    const int sign = random() % 2 == 0 ? 1 : -1;
                    row[i] = static_cast<float>(t == 0        ? 127
                                                : i % 24 == 0 ? 127 * sign
                                                              : static_cast<int>(random() % 255) - 127);
                }
                for (size_t begin = 0; begin < kCols; begin += 64) {
                    codec::hadamard(row + begin, 64);
                }
                for (size_t i = 0; i < kCols; ++i) {
                    row[i] *= rotation.signs()[i] / 8;
                }
            }
            const Exact exact = multiply_exactly(view, 20, x, tokens);
            const auto y = multiply(matrix, x, tokens, 1);
            for (size_t i = 0; i < y.size(); ++i) {
                ASSERT_NEAR(y[i], exact.y[i], 1e-6 * exact.norms[i]) << "g " << g << ", value " << i;
            }
        }
    }
}

TEST_P(Kaiju4MatrixTest, BitsDependNeitherOnInstructionsNorThreadsNorCompany) {
    for_all([](const std::vector<std::byte>& payload, const Shape& shape) {
        for (const Activations activations : {Activations::int8, Activations::f32}) {
            const Kaiju4Matrix scalar(payload, activations, 1, kaiju4_kernels::kScalar);
            const Kaiju4Matrix matrix(payload, activations, 2, *GetParam());
            constexpr size_t kAll = 33;
            const auto x = random_values(kAll * shape.cols, 3);
            const auto together = multiply(matrix, x, kAll, 1);
            EXPECT_EQ(together, multiply(scalar, x, kAll, 1));
            for (const int threads : {2, 3, 4}) {
                EXPECT_EQ(together, multiply(matrix, x, kAll, threads));
            }
            for (size_t t = 0; t < kAll; ++t) {
                const std::vector<float> one(x.begin() + t * shape.cols, x.begin() + (t + 1) * shape.cols);
                for (const int threads : {1, 4}) {
                    const auto alone = multiply(matrix, one, 1, threads);
                    ASSERT_EQ(std::memcmp(alone.data(), together.data() + t * shape.rows,
                                          shape.rows * sizeof(float)),
                              0)
                        << "token " << t;
                }
            }
        }
    });
}

TEST_P(Kaiju4MatrixTest, WhatIsNotFiniteStaysVisible) {
    constexpr uint32_t kCols = 48;
    const auto payload = random_kaiju4(1, 16, kCols, 8);
    const Kaiju4Matrix matrix(payload, Activations::int8, 1, *GetParam());
    for (const float bad : {std::nanf(""), INFINITY, -INFINITY}) {
        auto x = random_values(kCols, 1);
        x[5] = bad;
        for (const float y : multiply(matrix, x, 1, 1)) {
            EXPECT_TRUE(std::isnan(y));
        }
    }
    for (const float tiny : {0.0F, 1e-45F, 1e-38F, -1e-38F}) {
        for (const float value : multiply(matrix, std::vector<float>(kCols, tiny), 1, 1)) {
            EXPECT_LE(std::abs(value), 1e-30);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Kernels, Kaiju4MatrixTest,
                         ::testing::ValuesIn(available_kaiju4_kernels().begin(),
                                             available_kaiju4_kernels().end()),
                         [](const auto& kernels) { return test::kernels_name(kernels.param); });

TEST(Kaiju4Matrix, RefusesDamagedPayloads) {
    const auto good = random_kaiju4(1, 20, 40, 8);
    const codec::kaiju4::TensorView view{Bytes(good)};
    const auto expect_refusal = [&](size_t offset, uint8_t value, const char* part) {
        auto payload = good;
        payload[offset] = std::byte{value};
        try {
            const Kaiju4Matrix matrix(payload, Activations::int8, 2);
            ADD_FAILURE() << "packed with byte " << offset << " damaged";
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ErrorCode::bad_input);
            EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
        }
    };
    const size_t last_scale = codec::kaiju4::kHeaderBytes + 19 * view.layout().row_bytes() + 1;
    expect_refusal(0, 0, "magic");
    expect_refusal(last_scale, 0x7F, "row 19: scale");
    expect_refusal(last_scale, 0x80, "row 19: scale");
}

TEST(Kaiju4Matrix, PackMatrixWantsTheTypeAndShapeOfThePayload) {
    const auto payload = random_kaiju4(1, 20, 40, 8);
    format::TensorInfo info = {.name = "w", .type = "KAIJU4_3", .shape = {20, 40}, .nbytes = payload.size()};
    const auto matrix = pack_matrix(info, payload, Activations::int8, 1);
    EXPECT_EQ(matrix->rows(), 20U);
    EXPECT_EQ(matrix->cols(), 40U);
    info.type = "KAIJU4_2_5";
    EXPECT_THROW((void)pack_matrix(info, payload, Activations::int8, 1), Error);
    info.type = "KAIJU4_3";
    info.shape = {40, 20};
    EXPECT_THROW((void)pack_matrix(info, payload, Activations::int8, 1), Error);
}

TEST(Kaiju4Matrix, SharesPreparationWhereTheRotationIsTheSame) {
    const Kaiju4Matrix a(random_kaiju4(1, 20, 48, 8), Activations::int8, 1);
    EXPECT_TRUE(a.shares_preparation(Kaiju4Matrix(random_kaiju4(1, 3, 48, 8), Activations::int8, 1)));
    EXPECT_FALSE(a.shares_preparation(Kaiju4Matrix(random_kaiju4(1, 20, 48, 8), Activations::f32, 1)));
    EXPECT_FALSE(a.shares_preparation(Kaiju4Matrix(random_kaiju4(2, 20, 48, 8), Activations::int8, 1)));
    EXPECT_FALSE(a.shares_preparation(Kaiju4Matrix(random_kaiju4(1, 20, 40, 8), Activations::int8, 1)));
}

TEST(Kaiju4Matrix, WhatIsPreparedForAnotherWidthOfIndicesServes) {
    const auto first = random_kaiju4(1, 20, 48, 6);
    const auto second = random_kaiju4(1, 20, 48, 11);
    const auto x = random_values(48, 1);
    for (const Kernels* kernels : available_kaiju4_kernels()) {
        const Kaiju4Matrix a(first, Activations::int8, 1, *kernels);
        const Kaiju4Matrix b(second, Activations::int8, 1, *kernels);
        ASSERT_TRUE(a.shares_preparation(b));
        std::vector<float> prepared(a.prepared_bytes(1) / sizeof(float));
        a.prepare(x.data(), 48, 1, reinterpret_cast<std::byte*>(prepared.data()), 0, 1);
        std::vector<float> y(20);
        b.multiply(reinterpret_cast<const std::byte*>(prepared.data()), 1, y.data(), 20, 0, 1);
        EXPECT_EQ(y, multiply(b, x, 1, 1));
    }
}

}  // namespace
}  // namespace kaiju::runtime
