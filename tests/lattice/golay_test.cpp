#include "lattice/golay.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "lattice/turyn.h"

namespace kaiju::lattice {

TEST(Golay, WeightsAreThoseOfTheExtendedGolayCode) {
    std::map<int, int> counts;
    for (const uint32_t word : kGolay) {
        ++counts[std::popcount(word)];
    }
    EXPECT_EQ(counts, (std::map<int, int>{{0, 1}, {8, 759}, {12, 2576}, {16, 759}, {24, 1}}));
}

TEST(Golay, IndexIsTheRankAmongSortedWords) {
    EXPECT_TRUE(std::is_sorted(kGolay.begin(), kGolay.end()));
    uint32_t pivots = 0;
    for (uint32_t index = 0; index < kGolayWords; ++index) {
        ASSERT_EQ(golay_index(kGolay[index]), index);
    }
    for (const uint32_t row : detail::kGolayBasis) {
        pivots |= std::bit_floor(row);
    }
    EXPECT_EQ(pivots, 0xFEE880U);
}

TEST(Golay, IsLinearAndMembershipIsExact) {
    for (uint32_t a = 0; a < kGolayWords; a += 37) {
        for (uint32_t b = 0; b < kGolayWords; b += 41) {
            ASSERT_TRUE(is_golay_word(kGolay[a] ^ kGolay[b]));
            ASSERT_EQ(golay_index(kGolay[a] ^ kGolay[b]), a ^ b);
        }
        for (uint32_t bit = 0; bit < 24; ++bit) {
            ASSERT_FALSE(is_golay_word(kGolay[a] ^ 1U << bit));
        }
    }
    size_t members = 0;
    for (uint32_t bits = 0; bits < 1U << 24; ++bits) {
        members += is_golay_word(bits) ? 1 : 0;
    }
    EXPECT_EQ(members, kGolayWords);
}

TEST(Turyn, ClassesPairsAndSignsMakeEveryWordOnce) {
    std::set<uint32_t> words;
    for (size_t t = 0; t < kClasses; ++t) {
        for (size_t i = 0; i < kPairs; ++i) {
            for (size_t j = 0; j < kPairs; ++j) {
                for (uint32_t flips = 0; flips < 8; ++flips) {
                    words.insert(turyn_word(t, i, j, flips));
                }
            }
        }
    }
    EXPECT_TRUE(std::equal(words.begin(), words.end(), kGolay.begin(), kGolay.end()));
}

}  // namespace kaiju::lattice
