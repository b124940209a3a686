#include "eval/perplexity.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "eval/chunks.h"
#include "support/test_files.h"
#include "support/tiny_model.h"

namespace kaiju::eval {
namespace {

class PerplexityTest : public ::testing::Test {
  protected:
    std::unique_ptr<runtime::Engine> load(const std::string& name,
                                          const kaiju::test::TinyModelOptions& options) {
        return runtime::load_engine(kaiju::test::write_tiny_model(folder_ / name, options), {.threads = 1});
    }
    kaiju::test::TemporaryFolder folder_;
    std::string text_ = kaiju::test::tiny_text(2000);
    Monitor monitor_;
};

TEST(ChunkPlan, PutsChunksSideBySideInBatchesOf2048) {
    EXPECT_EQ(plan_chunks(512).n_seq, 4U);
    EXPECT_EQ(plan_chunks(512).n_batch, 2048U);
    EXPECT_EQ(plan_chunks(1000).n_seq, 2U);
    EXPECT_EQ(plan_chunks(1000).n_batch, 2000U);
    EXPECT_EQ(plan_chunks(4096).n_seq, 1U);
    EXPECT_EQ(plan_chunks(4096).n_batch, 2048U);
    EXPECT_THROW((void)plan_chunks(8), Error);
    EXPECT_THROW((void)plan_chunks(1U << 21), Error);
}

TEST_F(PerplexityTest, AModelAgainstItselfHasNoDivergence) {
    const auto model = load("model.gguf", {});
    const Perplexity result =
        measure_perplexity(*model, model.get(), text_, {.ctx = 64, .chunks = 6, .threads = 2}, monitor_);
    ASSERT_TRUE(result.divergence);
    EXPECT_EQ(result.divergence->mean_kl, 0);
    EXPECT_EQ(result.divergence->p99_kl, 0);
    EXPECT_EQ(result.divergence->max_kl, 0);
    EXPECT_EQ(result.divergence->same_top, 1);
    EXPECT_EQ(result.divergence->ppl_ratio, 1);
    EXPECT_EQ(result.divergence->ppl_ratio_error, 0);
    EXPECT_EQ(result.divergence->reference_ppl, result.ppl);
}

// The protocol, written out: chunks of ctx tokens, BOS in front, every chunk by itself, second half scored.
TEST_F(PerplexityTest, AgreesWithTheProtocolDoneStepByStep) {
    constexpr uint32_t kCtx = 32;
    constexpr size_t kChunks = 3;
    const auto model = load("model.gguf", {});
    const std::vector<runtime::Token> tokens =
        model->tokenize(text_.substr(0, text_.size() - 1), true, false);
    double sum = 0;
    double squares = 0;
    size_t count = 0;
    for (size_t chunk = 0; chunk < kChunks; ++chunk) {
        std::vector<runtime::Token> window(tokens.begin() + static_cast<std::ptrdiff_t>(chunk * kCtx),
                                           tokens.begin() + static_cast<std::ptrdiff_t>((chunk + 1) * kCtx));
        window[0] = 1;
        for (size_t position = kCtx / 2; position + 1 < kCtx; ++position) {
            const std::vector<float> logits =
                runtime::last_logits(*model, std::span(window).first(position + 1), 1);
            double total = 0;
            for (const float logit : logits) {
                total += std::exp(static_cast<double>(logit));
            }
            const double nll =
                std::log(total) - static_cast<double>(logits[static_cast<size_t>(window[position + 1])]);
            sum += nll;
            squares += nll * nll;
            ++count;
        }
    }
    const double mean = sum / static_cast<double>(count);
    const double error =
        std::sqrt((squares / static_cast<double>(count) - mean * mean) / static_cast<double>(count - 1));

    const Perplexity result =
        measure_perplexity(*model, nullptr, text_, {.ctx = kCtx, .chunks = kChunks, .threads = 1}, monitor_);
    EXPECT_EQ(result.tokens, count);
    EXPECT_EQ(result.chunks, kChunks);
    EXPECT_NEAR(result.ppl / std::exp(mean), 1, 1e-4);
    EXPECT_NEAR(result.ppl_error / (error * std::exp(mean)), 1, 1e-3);
    EXPECT_FALSE(result.divergence);
    EXPECT_TRUE(text_.starts_with(result.evaluated_text.substr(1, 40))) << "SPM puts a space before a text";
}

TEST_F(PerplexityTest, QuantisingCostsSomethingAndTheRatioIsThatOfTheFigures) {
    const auto reference = load("f32.gguf", {});
    const auto model = load("q4.gguf", {.type = GGML_TYPE_Q4_0});
    const PerplexityOptions options{.ctx = 64, .chunks = 6, .threads = 1};
    const Perplexity result = measure_perplexity(*model, reference.get(), text_, options, monitor_);
    const Perplexity alone = measure_perplexity(*reference, nullptr, text_, options, monitor_);
    ASSERT_TRUE(result.divergence);
    EXPECT_GT(result.divergence->mean_kl, 1e-5);
    EXPECT_LT(result.divergence->mean_kl, 1);
    EXPECT_LE(result.divergence->median_kl, result.divergence->p99_kl);
    EXPECT_LE(result.divergence->p99_kl, result.divergence->max_kl);
    EXPECT_GT(result.divergence->same_top, 0.5);
    EXPECT_EQ(result.divergence->reference_ppl, alone.ppl);
    EXPECT_NEAR(result.divergence->ppl_ratio, result.ppl / alone.ppl, 1e-9);
    EXPECT_GT(result.divergence->ppl_ratio_error, 0);
}

TEST_F(PerplexityTest, AContextLongerThanABatchIsEvaluatedInParts) {
    const auto model = load("model.gguf", {.context = 4096});
    const std::string text = kaiju::test::tiny_text(20000);
    const Perplexity result =
        measure_perplexity(*model, nullptr, text, {.ctx = 2500, .chunks = 1, .threads = 1}, monitor_);
    EXPECT_EQ(result.tokens, 2500U - 1250 - 1);
    // The second half of a 2500-token chunk starts inside the first batch of 2048 tokens and ends in the
    // second.
    const auto tokens = tokenize_text(*model, text, 2500);
    ChunkRunner parts(*model, plan_chunks(2500), 2499, 1, nullptr);
    const auto last = parts.evaluate(tokens, 0, 1);
    ASSERT_EQ(last.size(), model->vocabulary_size());
    std::vector<runtime::Token> window(tokens.begin(), tokens.begin() + 2500);
    const std::vector<float> whole = runtime::last_logits(*model, window, 1);
    for (size_t i = 0; i < whole.size(); ++i) {
        ASSERT_NEAR(last[i], whole[i], 1e-2);
    }
}

TEST_F(PerplexityTest, RefusesShortTextsAndForeignReferences) {
    const auto model = load("model.gguf", {});
    EXPECT_THROW((void)measure_perplexity(*model, nullptr, "too short", {.ctx = 64}, monitor_), Error);
    EXPECT_THROW((void)measure_perplexity(*model, nullptr, "", {.ctx = 64}, monitor_), Error);
    EXPECT_THROW((void)measure_perplexity(*model, nullptr, text_, {.ctx = 64, .chunks = 0}, monitor_), Error);
    KAIJU_REQUIRE_DATA("stories260K/stories260K-f32.gguf");
    const auto foreign =
        runtime::load_engine(kaiju::test::data_dir() / "stories260K/stories260K-f32.gguf", {.threads = 1});
    EXPECT_THROW((void)measure_perplexity(*model, foreign.get(), text_, {.ctx = 64}, monitor_), Error);
}

class Warnings final : public Monitor {
  public:
    void warn(std::string_view message) override { text += message; }
    void advance(uint64_t units) override { done += units; }
    std::string text;
    uint64_t done = 0;
};

TEST_F(PerplexityTest, WarnsAboutLongContextsAndReportsProgress) {
    const auto model = load("model.gguf", {.context = 32});
    Warnings warnings;
    const Perplexity result =
        measure_perplexity(*model, nullptr, text_, {.ctx = 64, .chunks = 5, .threads = 1}, warnings);
    EXPECT_NE(warnings.text.find("trained"), std::string::npos);
    EXPECT_EQ(warnings.done, result.chunks);
}

}  // namespace
}  // namespace kaiju::eval
