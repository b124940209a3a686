#include "eval/imatrix_collector.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "eval/chunks.h"
#include "eval/text_overlap.h"
#include "format/calibration.h"
#include "support/test_files.h"
#include "support/tiny_model.h"

namespace kaiju::eval {
namespace {

TEST(ImportanceCollector, SumsSquaresAndCountsTokens) {
    ImportanceCollector collector;
    EXPECT_TRUE(collector.wants("blk.3.ffn_up.weight"));
    EXPECT_FALSE(collector.wants("output.weight"));
    const std::vector<float> rows = {1, -2, 99, 3, 4, 99};  // two rows of two values, three apart
    collector.see("blk.0.attn_q.weight", 2, 2, rows.data(), 3);
    collector.see("blk.0.attn_q.weight", 1, 2, rows.data() + 3, 3);
    const ImportanceSums& sums = collector.sums().at("blk.0.attn_q.weight");
    EXPECT_EQ(sums.squares, (std::vector<double>{1 + 9 + 9, 4 + 16 + 16}));
    EXPECT_EQ(sums.tokens, 3U);
    EXPECT_THROW(collector.see("blk.0.attn_q.weight", 1, 3, rows.data(), 3), Error);
    const std::vector<float> broken = {std::numeric_limits<float>::quiet_NaN(), 0};
    EXPECT_THROW(collector.see("blk.1.attn_q.weight", 1, 2, broken.data(), 2), Error);
}

TEST(CollectImportance, SeesEveryTokenInEveryLayerAndSurvivesTheFile) {
    const kaiju::test::TemporaryFolder folder;
    const auto model =
        runtime::load_engine(kaiju::test::write_tiny_model(folder / "model.gguf"), {.threads = 1});
    const std::string text = kaiju::test::tiny_text(3000);
    Monitor monitor;
    const Importance importance =
        collect_importance(*model, text, {.ctx = 64, .chunks = 6, .threads = 2}, monitor);
    ASSERT_EQ(importance.sums.size(), 14U) << "seven matrices in each of two layers";
    for (const auto& [name, sums] : importance.sums) {
        EXPECT_EQ(sums.tokens, 6U * 64) << name;
        EXPECT_EQ(sums.squares.size(), name.find("ffn_down") == std::string::npos ? 96U : 192U) << name;
    }
    EXPECT_EQ(importance.sums.at("blk.1.attn_q.weight").squares,
              importance.sums.at("blk.1.attn_k.weight").squares);

    // The input of q is the normalised stream: its mean square over the width is that of the norm's weights,
    // about 1.
    double mean = 0;
    for (const double square : importance.sums.at("blk.0.attn_q.weight").squares) {
        mean += square / (6 * 64 * 96);
    }
    EXPECT_NEAR(mean, 1, 0.1);

    format::write_imatrix(folder / "imatrix.gguf", to_imatrix(importance, "calibration.txt"));
    const format::Imatrix read = format::read_imatrix(folder / "imatrix.gguf");
    EXPECT_EQ(read.chunk_count, 6U);
    EXPECT_EQ(read.chunk_size, 64U);
    EXPECT_EQ(read.datasets, std::vector<std::string>{"calibration.txt"});
    ASSERT_EQ(read.entries.size(), 14U);
    const auto* entry = read.find("blk.1.ffn_down.weight");
    ASSERT_NE(entry, nullptr);
    EXPECT_EQ(entry->count, 6 * 64);
    EXPECT_EQ(entry->sum_of_squares[5],
              static_cast<float>(importance.sums.at("blk.1.ffn_down.weight").squares[5]));
    const auto calibration = format::calibration_of(read);
    ASSERT_TRUE(calibration);
    EXPECT_EQ(calibration->source, "calibration.txt");
    EXPECT_EQ(calibration->window_hashes, importance.window_hashes);
    EXPECT_GT(overlap_with(text, calibration->window_hashes).shared, 2U);
    EXPECT_EQ(overlap_with(kaiju::test::tiny_text(3000, 9), calibration->window_hashes).shared, 0U);
}

TEST(CollectImportance, RefusesShortTexts) {
    const kaiju::test::TemporaryFolder folder;
    const auto model =
        runtime::load_engine(kaiju::test::write_tiny_model(folder / "model.gguf"), {.threads = 1});
    Monitor monitor;
    EXPECT_THROW((void)collect_importance(*model, "short", {.ctx = 64}, monitor), Error);
}

}  // namespace
}  // namespace kaiju::eval
