#include "lattice/e8.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/error.h"

namespace kaiju::lattice {

namespace {

bool in_e8(const std::array<int32_t, kE8Dimension>& x) {
    int64_t sum = 0;
    for (const int32_t v : x) {
        if ((v - x[0]) % 2 != 0) {
            return false;
        }
        sum += v;
    }
    return sum % 4 == 0;
}

/// The best of all lattice points whose coordinates are the nearest value of a half or a neighbour of it.
NearestE8 nearest_by_search(const std::array<float, kE8Dimension>& y) {
    NearestE8 best;
    best.d2 = std::numeric_limits<double>::infinity();
    for (int m = 0; m < 2; ++m) {
        for (int choice = 0; choice < 6561; ++choice) {  // 3^8 roundings: the nearest and one on each side
            NearestE8 candidate;
            int rest = choice;
            for (size_t i = 0; i < kE8Dimension; ++i) {
                const double centre = 2 * std::floor((double{y[i]} - m) / 2 + 0.5) + m;
                candidate.x[i] = static_cast<int32_t>(centre) + 2 * (rest % 3 - 1);
                rest /= 3;
                candidate.d2 += (double{y[i]} - candidate.x[i]) * (double{y[i]} - candidate.x[i]);
            }
            if (in_e8(candidate.x) && candidate.d2 < best.d2) {
                best = candidate;
            }
        }
    }
    return best;
}

}  // namespace

TEST(E8, FindsTheNearestPoint) {
    std::mt19937 random(1);
    for (int n = 0; n < 300; ++n) {
        std::array<float, kE8Dimension> y;
        for (float& v : y) {
            // Every third point on half integers, where ties abound; the others on the grid, where doubles
            // are exact.
            v = n % 3 == 0 ? static_cast<float>(static_cast<int>(random() % 33) - 16) / 2
                           : static_cast<float>(static_cast<int>(random() % 1048576) - 524288) / 65536;
        }
        NearestE8 found;
        nearest_e8(y, std::span(&found, 1));
        double d2 = 0;
        for (size_t i = 0; i < kE8Dimension; ++i) {
            d2 += (double{y[i]} - found.x[i]) * (double{y[i]} - found.x[i]);
        }
        ASSERT_TRUE(in_e8(found.x));
        ASSERT_EQ(found.d2, d2);
        ASSERT_EQ(found.d2, nearest_by_search(y).d2) << n;
    }
}

TEST(E8, TiesFollowTheDocumentedRule) {
    NearestE8 found;
    // Equally far from the even and the odd half: even. All coordinates midway: the smaller, then no repair
    // is due.
    nearest_e8(std::array<float, 8>{1, 1, 1, 1, 1, 1, 1, 0}, std::span(&found, 1));
    EXPECT_EQ(found.d2, 1);
    EXPECT_EQ(found.x, (std::array<int32_t, 8>{1, 1, 1, 1, 1, 1, 1, 1}));
    nearest_e8(std::array<float, 8>{1, 1, 0, 0, 0, 0, 0, 0}, std::span(&found, 1));
    EXPECT_EQ(found.d2, 2);
    EXPECT_EQ(found.x, (std::array<int32_t, 8>{}));
    // One coordinate on a hole of D8: the repair takes the smallest coordinate and, on the value itself, goes
    // down.
    nearest_e8(std::array<float, 8>{2, 0, 0, 0, 0, 0, 0, 0}, std::span(&found, 1));
    EXPECT_EQ(found.d2, 4);
    EXPECT_EQ(found.x, (std::array<int32_t, 8>{}));
}

TEST(E8, SecondMomentIsKnown) {
    // G(E8) = 929/12960 = 0.0716821 per dimension and unit covolume; 2^8 is the covolume here.
    std::mt19937_64 random(2);
    constexpr size_t kPoints = 20000;
    std::vector<float> y(kPoints * kE8Dimension);
    for (float& v : y) {
        v = static_cast<float>(static_cast<double>(random() >> 40) * 0x1p-22 - 2);
    }
    std::vector<NearestE8> out(kPoints);
    nearest_e8(y, out);
    double sum = 0;
    double squares = 0;
    for (const NearestE8& nearest : out) {
        const double g = nearest.d2 / (8 * 4);
        sum += g;
        squares += g * g;
    }
    const double mean = sum / kPoints;
    const double error = std::sqrt((squares / kPoints - mean * mean) / kPoints);
    EXPECT_NEAR(mean, 929.0 / 12960, 4 * error);
}

TEST(Z, RoundsToTheNearestAndDownBetween) {
    const std::array<float, 6> y = {0.5F, -0.5F, 1.25F, -1.75F, 7, 0x1p20F};
    std::array<int32_t, 6> x;
    nearest_z(y, x);
    EXPECT_EQ(x, (std::array<int32_t, 6>{0, -1, 1, -2, 7, 1 << 20}));
}

TEST(E8, BadInputIsAnError) {
    std::array<float, 16> y{};
    std::array<NearestE8, 2> out;
    y[11] = std::numeric_limits<float>::quiet_NaN();
    try {
        nearest_e8(y, out);
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::bad_input);
        EXPECT_STREQ(error.what(), "point 1, coordinate 3: nan is not finite");
    }
    std::array<int32_t, 16> x;
    EXPECT_THROW(nearest_z(y, x), Error);
    EXPECT_THROW(nearest_e8(std::span<const float>(y).first(9), out), Error);
}

}  // namespace kaiju::lattice
