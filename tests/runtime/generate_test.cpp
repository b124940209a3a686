#include "runtime/generate.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "support/test_files.h"
#include "support/tiny_model.h"

namespace kaiju::runtime {
namespace {

class GenerateTest : public ::testing::Test {
  protected:
    kaiju::test::TemporaryFolder folder_;
    std::unique_ptr<Engine> engine_ =
        load_engine(kaiju::test::write_tiny_model(folder_ / "model.gguf"), {.threads = 1});
    std::vector<Token> prompt_ = {1, 70, 80};
};

TEST_F(GenerateTest, GreedyTakesTheArgmaxEachTime) {
    const Generated result = generate(*engine_, prompt_, {.max_tokens = 5, .threads = 1});
    std::vector<Token> text = prompt_;
    for (const Token token : result.tokens) {
        const std::vector<float> logits = last_logits(*engine_, text, 1);
        // One token at a time and all at once go through different kernels, so a near tie may break either
        // way.
        EXPECT_NEAR(logits[static_cast<size_t>(token)], *std::ranges::max_element(logits), 1e-3);
        text.push_back(token);
    }
    EXPECT_TRUE(result.ended || result.tokens.size() == 5);
}

TEST_F(GenerateTest, TheSameSeedGivesTheSameText) {
    GenerateOptions options{
        .max_tokens = 16, .sampler = {.temperature = 2, .seed = 5, .top_k = 0, .top_p = 1}, .threads = 1};
    const Generated first = generate(*engine_, prompt_, options);
    EXPECT_EQ(first.tokens, generate(*engine_, prompt_, options).tokens);
    options.sampler.seed = 6;
    EXPECT_NE(first.tokens, generate(*engine_, prompt_, options).tokens);
}

TEST_F(GenerateTest, StreamsThePiecesAndStopsWhenTold) {
    std::string streamed;
    int pieces = 0;
    const Generated result =
        generate(*engine_, prompt_, {.max_tokens = 8, .threads = 1, .on_piece = [&](std::string_view piece) {
                                         streamed += piece;
                                         return ++pieces < 3;
                                     }});
    EXPECT_EQ(result.tokens.size(), 3U);
    EXPECT_EQ(streamed, result.text);
}

TEST_F(GenerateTest, RefusesBadArguments) {
    EXPECT_THROW((void)generate(*engine_, {}, {}), Error);
    EXPECT_THROW((void)generate(*engine_, std::vector<Token>{99999}, {}), Error);
    EXPECT_THROW(Sampler({.temperature = -1}), Error);
    EXPECT_THROW(Sampler({.temperature = 1, .top_p = 0}), Error);
    EXPECT_THROW(Sampler({.temperature = 1, .top_k = -1}), Error);
}

TEST(Sampler, GreedyTiesGoToTheLowerId) {
    Sampler sampler(SamplerOptions{});
    EXPECT_EQ(sampler.sample(std::vector<float>{0, 3, 3, 1}), 1);
}

TEST(Sampler, TopOneIsGreedyAtAnyTemperature) {
    Sampler sampler({.temperature = 5, .seed = 1, .top_k = 1});
    for (int i = 0; i < 10; ++i) {
        EXPECT_EQ(sampler.sample(std::vector<float>{0, 1, 3, 2}), 2);
    }
}

TEST(Generate, TellsTheStoryThatTheModelIsKnownFor) {
    KAIJU_REQUIRE_DATA("stories260K/stories260K-f32.gguf");
    const auto engine =
        load_engine(kaiju::test::data_dir() / "stories260K/stories260K-f32.gguf", {.threads = 1});
    const std::vector<Token> prompt = engine->tokenize("Once upon a time", true, false);
    const Generated result = generate(*engine, prompt, {.max_tokens = 200, .threads = 1});
    const std::string text = "Once upon a time" + result.text;
    const std::string published = kaiju::test::slurp(kaiju::test::data_dir() / "stories260K/stories260K.md");
    EXPECT_GT(text.size(), 300U);
    EXPECT_NE(published.find(text.substr(0, 300)), std::string::npos) << text;
}

}  // namespace
}  // namespace kaiju::runtime
