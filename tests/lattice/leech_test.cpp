#include "lattice/leech.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>

#include "lattice/golay.h"
#include "points.h"

namespace kaiju::lattice {

namespace {

using Vector = std::array<int32_t, kDimension>;

}  // namespace

TEST(Leech, HasTheRightMinimalVectors) {
    // Shapes (2^8, 0^16), (-3, 1^23), (4^2, 0^22) with their signs: 97152 + 98304 + 1104 = 196560 vectors of
    // squared norm 32. Every one must be a member, and flipping the sign of one coordinate of the first must
    // not be.
    size_t count = 0;
    for (const uint32_t word : kGolay) {
        if (std::popcount(word) == 8) {
            for (uint32_t signs = 0; signs < 256; ++signs) {
                Vector x{};
                uint32_t k = 0;
                for (size_t i = 0; i < kDimension; ++i) {
                    if ((word >> i & 1) != 0) {
                        x[i] = (signs >> k++ & 1) != 0 ? -2 : 2;
                    }
                }
                const bool even = std::popcount(signs) % 2 == 0;
                ASSERT_EQ(is_lattice_point(x), even);
                count += even ? 1 : 0;
            }
        }
        for (size_t at = 0; at < kDimension; ++at) {
            Vector x;
            for (size_t i = 0; i < kDimension; ++i) {
                x[i] = ((word >> i & 1) != 0 ? -1 : 1) * (i == at ? -3 : 1);
            }
            ASSERT_TRUE(is_lattice_point(x));
            ++count;
        }
    }
    for (size_t i = 0; i < kDimension; ++i) {
        for (size_t j = i + 1; j < kDimension; ++j) {
            for (uint32_t signs = 0; signs < 4; ++signs) {
                Vector x{};
                x[i] = (signs & 1) != 0 ? -4 : 4;
                x[j] = (signs & 2) != 0 ? -4 : 4;
                ASSERT_TRUE(is_lattice_point(x));
                ++count;
            }
        }
    }
    EXPECT_EQ(count, 196560U);
}

TEST(Leech, RefusesPointsThatAreNotInTheLattice) {
    Vector x{};
    EXPECT_EQ(coset_of(x), (Coset{0, 0}));
    x[3] = 4;  // parity of the sum
    EXPECT_FALSE(is_lattice_point(x));
    x[3] = 8;
    EXPECT_TRUE(is_lattice_point(x));
    x[4] = 1;  // mixed halves
    EXPECT_FALSE(is_lattice_point(x));
    x.fill(1);  // odd half asks for an odd sum of q
    EXPECT_FALSE(is_lattice_point(x));
    x[7] = -3;
    EXPECT_EQ(coset_of(x), (Coset{1, 0}));
    x.fill(std::numeric_limits<int32_t>::min());  // -2^31 = 4 * -2^29
    EXPECT_TRUE(is_lattice_point(x));
    x.fill(std::numeric_limits<int32_t>::max());  // 1 + 2 + 4 (2^29 - 1): the word of all ones, 24 odd q
    EXPECT_FALSE(is_lattice_point(x));
    x[0] -= 4;
    EXPECT_EQ(coset_of(x), (Coset{1, 4095}));
}

TEST(Leech, NearestInCosetStaysInIt) {
    uint32_t seed = 1;
    for (uint16_t word = 0; word < kGolayWords; word += 13) {
        for (uint8_t m = 0; m < 2; ++m) {
            Vector y;
            for (int32_t& v : y) {
                seed = seed * 1664525 + 1013904223;
                v = static_cast<int32_t>(seed >> 13) - (1 << 18);
            }
            Nearest nearest;
            nearest_in_coset(y, {m, word}, nearest);
            ASSERT_EQ(coset_of(nearest.x), (Coset{m, word}));
            double d2 = 0;
            for (size_t i = 0; i < kDimension; ++i) {
                const double r = y[i] / 65536.0 - nearest.x[i];
                d2 += r * r;
            }
            ASSERT_EQ(nearest.d2, d2);
            ASSERT_LE(d2, 24 * 4 + 8);
        }
    }
}

}  // namespace kaiju::lattice
