#include "eval/text_overlap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "support/test_files.h"
#include "support/tiny_model.h"

namespace kaiju::eval {
namespace {

const std::string kSentence = "The quick brown fox jumps over the lazy dog again and again.";

/// The text with its lines broken anew, none longer than `width` where words allow it.
std::string wrapped(std::string_view text, size_t width) {
    std::string out;
    size_t column = 0;
    for (const char c : text) {
        const bool white = c == ' ' || c == '\n';
        out += !white ? c : column >= width ? '\n' : ' ';
        column = white && column >= width ? 0 : column + 1;
    }
    return out;
}

TEST(WindowHashes, DoNotDependOnWhiteSpace) {
    const auto hashes = window_hashes(kSentence);
    EXPECT_EQ(hashes.size(), 49 - kWindowBytes + 1);  // letters and a full stop
    EXPECT_EQ(hashes,
              window_hashes("  The quick  brown\nfox jumps\tover the lazy\r\ndog again and again. \r\n"));
    EXPECT_TRUE(window_hashes("a short line\n\n= heading =\n").empty());
    EXPECT_TRUE(window_hashes("").empty());
    EXPECT_TRUE(window_hashes(std::string(100, ' ')).empty());
    EXPECT_EQ(window_hashes(std::string(1000, '-')).size(), 1U) << "without repetitions";
}

TEST(WindowHashes, KeepTheSmallestOfMany) {
    const std::string text = kaiju::test::tiny_text(100000, 1);
    const auto hashes = window_hashes(text);
    EXPECT_EQ(hashes.size(), kMaxWindowHashes);
    EXPECT_TRUE(std::ranges::is_sorted(hashes));
    const TextOverlap overlap = overlap_with(text, hashes);
    EXPECT_EQ(overlap.compared, kMaxWindowHashes);
    EXPECT_EQ(overlap.shared, kMaxWindowHashes);
    // Half of another text is from this one: the estimate must say so although most of the sketch is gone.
    const std::string half = text.substr(30000, 40000) + kaiju::test::tiny_text(40000, 2);
    EXPECT_NEAR(overlap_with(half, hashes).share().value(), 0.5, 0.05);
}

TEST(TextOverlap, TellsTheSameTextFromAnother) {
    const std::string text = kaiju::test::tiny_text(20000, 1);
    const std::string other = kaiju::test::tiny_text(20000, 2);
    EXPECT_EQ(overlap_with(text, window_hashes(text)).share(), 1);
    EXPECT_TRUE(overlap_with(text, window_hashes(text)).is_suspicious());
    EXPECT_EQ(overlap_with(other, window_hashes(text)).share(), 0);
    EXPECT_FALSE(overlap_with(other, window_hashes(text)).is_suspicious());
}

TEST(TextOverlap, FindsShortLinesAndTextsWrappedAnew) {
    const std::string text = kaiju::test::tiny_text(20000, 1);
    for (const size_t width : {1U, 30U, 80U, 100000U}) {
        EXPECT_EQ(overlap_with(wrapped(text, width), window_hashes(text)).share(), 1) << width;
        EXPECT_EQ(overlap_with(text, window_hashes(wrapped(text, width))).share(), 1) << width;
    }
    EXPECT_TRUE(overlap_with(text.substr(7001), window_hashes(text)).is_suspicious()) << "begins mid-word";
}

TEST(TextOverlap, TooLittleToCompareIsNotKnown) {
    const std::string text = kaiju::test::tiny_text(20000, 1);
    EXPECT_EQ(overlap_with(text, {}).share(), std::nullopt) << "no sketch";
    EXPECT_EQ(overlap_with("one two", window_hashes(text)).share(), std::nullopt);
    EXPECT_EQ(overlap_with(kSentence, window_hashes(text)).share(), std::nullopt);
    EXPECT_EQ(overlap_with(kSentence, window_hashes(kSentence)).share(), 1) << "little, and all of it shared";
}

TEST(TextOverlap, WikiTextAsDocumented) {
    KAIJU_REQUIRE_DATA("wikitext-2/wiki.test.raw");
    KAIJU_REQUIRE_DATA("wikitext-2/wiki.valid.tokens.txt");
    const std::string test = kaiju::test::slurp(kaiju::test::data_dir() / "wikitext-2/wiki.test.raw");
    const std::string valid =
        kaiju::test::slurp(kaiju::test::data_dir() / "wikitext-2/wiki.valid.tokens.txt");
    const auto of_valid = window_hashes(valid);
    const auto of_test = window_hashes(test);
    EXPECT_LT(overlap_with(test, of_valid).share().value(), 0.001);
    constexpr size_t kExcerpt = 22000;  // about ten chunks of 512 tokens
    size_t excerpts = 0;
    for (size_t at = 0; at + kExcerpt <= valid.size(); at += 10 * kExcerpt, ++excerpts) {
        const std::string excerpt = valid.substr(at, kExcerpt);
        EXPECT_FALSE(overlap_with(excerpt, of_test).is_suspicious()) << at;
        EXPECT_EQ(overlap_with(excerpt, of_test).share(), 0) << at;
        const std::string mixed = wrapped(test.substr(at, kExcerpt / 4), 30) + excerpt.substr(kExcerpt / 4);
        EXPECT_TRUE(overlap_with(mixed, of_test).is_suspicious()) << at;
    }
    EXPECT_GE(excerpts, 5U);
    const std::string quarter = wrapped(test.substr(test.size() / 2, test.size() / 4), 40);
    EXPECT_GT(overlap_with(quarter, of_test).share().value(), 0.99);
}

}  // namespace
}  // namespace kaiju::eval
