#include "lattice/shell_book.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "base/error.h"
#include "lattice/golay.h"

namespace kaiju::lattice {
namespace {

int squared_norm(const GroupVector& x) {
    int sum = 0;
    for (const int8_t value : x) {
        sum += int{value} * value;
    }
    return sum;
}

TEST(ShellBook, ListsHoldEveryShortVectorOfTheirCosetOnce) {
    for (const int g : {kLeastIndexBits, 4, 8, 9, kMostIndexBits}) {
        const ShellBook& book = ShellBook::of(g);
        const size_t length = kRings << g;
        for (unsigned m = 0; m < 2; ++m) {
            for (unsigned pattern = 0; pattern < 16; ++pattern) {
                std::set<GroupVector> seen;
                int norm = 0;
                for (size_t position = 0; position < length; ++position) {
                    const GroupVector x = book.vector(m, pattern, position);
                    std::array<int, kGroupSize> wide{};
                    for (size_t i = 0; i < kGroupSize; ++i) {
                        wide[i] = int{x[i]};
                        ASSERT_EQ((x[i] - static_cast<int>(m + 2 * (pattern >> i & 1))) % 4, 0);
                        ASSERT_LE(std::abs(x[i]), g <= 8 ? 16 : 32);
                    }
                    ASSERT_GE(squared_norm(x), norm) << "not ascending";
                    norm = squared_norm(x);
                    ASSERT_TRUE(seen.insert(x).second) << "twice";
                    ASSERT_EQ(book.position(m, pattern, wide.data()), static_cast<int>(position));
                }
            }
        }
    }
}

TEST(ShellBook, EveryCodeIsFoundAgainFromItsPoint) {
    std::mt19937 random(5);
    for (int g = kLeastIndexBits; g <= kMostIndexBits; ++g) {
        const ShellBook& book = ShellBook::of(g);
        for (int n = 0; n < 2000; ++n) {
            ShellCode code;
            code.word = static_cast<uint16_t>(random() % kGolayWords);
            code.m = static_cast<uint8_t>(random() % 2);
            code.sequence = static_cast<uint16_t>(random() % kSequences);
            for (auto& index : code.index) {
                index = static_cast<uint16_t>(random() % (1U << g));
            }
            std::array<int8_t, kDimension> x{};
            book.values(code, x.data());
            const std::array<int, kDimension> wide = [&] {
                std::array<int, kDimension> all{};
                std::copy(x.begin(), x.end(), all.begin());
                return all;
            }();
            ShellCode again;
            ASSERT_TRUE(book.encode(code.m, code.word, wide.data(), again));
            ASSERT_EQ(again, code);
        }
    }
}

TEST(ShellBook, RefusesPointsOutsideAndSequencesThatAreTooLong) {
    const ShellBook& book = ShellBook::of(4);
    ShellCode code;
    std::array<int, kDimension> x{};
    EXPECT_TRUE(book.encode(0, 0, x.data(), code));
    EXPECT_EQ(code.sequence, 0);
    x[3] = 400;
    EXPECT_FALSE(book.encode(0, 0, x.data(), code));
    EXPECT_EQ(book.sequence({7, 7, 7, 7, 7, 7}), -1);
    EXPECT_THROW((void)ShellBook::of(2), Error);
    EXPECT_THROW((void)ShellBook::of(13), Error);
}

}  // namespace
}  // namespace kaiju::lattice
