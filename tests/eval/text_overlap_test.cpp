#include "eval/text_overlap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "support/tiny_model.h"

namespace kaiju::eval {
namespace {

const std::string kLine = "The quick brown fox jumps over the lazy dog again and again.";

TEST(LineHashes, IgnoreBlanksAndShortLines) {
    EXPECT_EQ(line_hashes(kLine).size(), 1U);
    EXPECT_EQ(line_hashes(kLine),
              line_hashes("  The quick  brown fox jumps\tover the lazy dog again and again. \r\n"));
    EXPECT_TRUE(line_hashes("a short line\n\n= heading =\n").empty());
    EXPECT_TRUE(line_hashes("").empty());
    EXPECT_TRUE(line_hashes(std::string(100, ' ')).empty());
    EXPECT_EQ(line_hashes(kLine + "\n" + kLine).size(), 1U) << "without repetitions";
    EXPECT_NE(line_hashes(kLine), line_hashes(kLine + "!"));
}

TEST(LineHashes, KeepTheSmallestOfMany) {
    std::string text;
    for (int i = 0; i < 6000; ++i) {
        text += kLine + std::to_string(i) + "\n";
    }
    const auto hashes = line_hashes(text);
    EXPECT_EQ(hashes.size(), kMaxLineHashes);
    EXPECT_TRUE(std::ranges::is_sorted(hashes));
    const TextOverlap overlap = overlap_with(text, hashes);
    EXPECT_EQ(overlap.compared, kMaxLineHashes);
    EXPECT_EQ(overlap.shared, kMaxLineHashes);

    // Half of these lines are in the text: the estimate must say so although two thirds of the sketch are
    // gone.
    std::string half;
    for (int i = 3000; i < 9000; ++i) {
        half += kLine + std::to_string(i) + "\n";
    }
    EXPECT_NEAR(overlap_with(half, hashes).share(), 0.5, 0.05);
}

TEST(TextOverlap, TellsTheSameTextFromAnother) {
    const std::string text = kaiju::test::tiny_text(20000, 1);
    const std::string other = kaiju::test::tiny_text(20000, 2);
    EXPECT_EQ(overlap_with(text, line_hashes(text)).share(), 1);
    EXPECT_TRUE(overlap_with(text, line_hashes(text)).is_suspicious());
    EXPECT_EQ(overlap_with(other, line_hashes(text)).share(), 0);
    EXPECT_FALSE(overlap_with(other, line_hashes(text)).is_suspicious());
    EXPECT_EQ(overlap_with(text, {}).compared, 0U) << "nothing is known without a sketch";
}

}  // namespace
}  // namespace kaiju::eval
