#include "runtime/generate.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "runtime/chat.h"
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
    EXPECT_TRUE(result.ending == Ending::model || result.tokens.size() == 5);
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
    EXPECT_EQ(result.ending, Ending::caller);
    EXPECT_EQ(streamed, result.text);
}

TEST_F(GenerateTest, EndsBeforeAStopString) {
    const Generated whole = generate(*engine_, prompt_, {.max_tokens = 12, .threads = 1});
    ASSERT_GE(whole.text.size(), 6U);
    // Across the borders of tokens, and with one that begins like it first.
    const std::string stop = whole.text.substr(2, 4);
    std::string streamed;
    const Generated result = generate(*engine_, prompt_,
                                      {.max_tokens = 12,
                                       .stops = {stop + "never", stop},
                                       .threads = 1,
                                       .on_piece = [&](std::string_view piece) {
                                           streamed += piece;
                                           return true;
                                       }});
    EXPECT_EQ(result.text, whole.text.substr(0, whole.text.find(stop)));
    EXPECT_EQ(result.ending, Ending::stop);
    EXPECT_EQ(streamed, result.text);
    // What is held back is not lost where the stop string never completes.
    EXPECT_EQ(
        generate(
            *engine_, prompt_,
            {.max_tokens = 12, .stops = {whole.text.substr(whole.text.size() - 2) + "never"}, .threads = 1})
            .text,
        whole.text);
}

TEST_F(GenerateTest, EndsWhereTheContextDoes) {
    const Generated result = generate(*engine_, prompt_, {.max_tokens = 50, .context = 10, .threads = 1});
    EXPECT_EQ(result.ending, Ending::context);
    EXPECT_EQ(result.tokens.size(), 8U) << "seven that were read again, and the last";
    EXPECT_THROW((void)generate(*engine_, prompt_, {.context = 2}), Error);
}

TEST_F(GenerateTest, GoingOnIsOneText) {
    const GenerateOptions options{.max_tokens = 4, .context = 64, .threads = 1};
    TextStream stream(*engine_, options);
    const Generated first = stream.extend(prompt_);
    const std::vector<Token> more = {90, 91};
    const Generated second = stream.extend(more);
    std::vector<Token> text = prompt_;
    text.insert(text.end(), first.tokens.begin(), first.tokens.end());
    text.insert(text.end(), more.begin(), more.end());
    const std::vector<float> logits = last_logits(*engine_, text, 1);
    EXPECT_NEAR(logits[static_cast<size_t>(second.tokens[0])], *std::ranges::max_element(logits), 1e-3);
    stream.clear();
    EXPECT_EQ(stream.extend(prompt_).tokens, first.tokens);
}

TEST_F(GenerateTest, AnEmptyPromptIsTheFirstToken) {
    EXPECT_EQ(prompt_tokens(*engine_, ""), std::vector<Token>{1});
}

TEST_F(GenerateTest, RefusesBadArguments) {
    EXPECT_THROW((void)generate(*engine_, {}, {}), Error);
    EXPECT_THROW((void)generate(*engine_, std::vector<Token>{99999}, {}), Error);
    EXPECT_THROW(Sampler({.temperature = -1}), Error);
    EXPECT_THROW(Sampler({.temperature = 1, .top_p = 0}), Error);
    EXPECT_THROW(Sampler({.temperature = 1, .top_k = -1}), Error);
    EXPECT_THROW(Sampler({.temperature = 1, .min_p = 1}), Error);
    EXPECT_THROW(Sampler({.repeat_penalty = 0}), Error);
    EXPECT_THROW((void)generate(*engine_, prompt_, {.stops = {""}}), Error);
}

TEST(Sampler, PenaltyMakesWhatWasSeenLessLikely) {
    const std::vector<float> logits = {0, 3, 2.5, 1};
    Sampler sampler({.repeat_penalty = 1.5});
    EXPECT_EQ(sampler.sample(logits), 1);
    EXPECT_EQ(sampler.sample(logits), 2) << "3 / 1.5 is less than 2.5";
    sampler.remember(3);
    EXPECT_EQ(sampler.sample(logits), 1) << "2 against 2.5 / 1.5";
}

TEST(Sampler, MinPDropsTheUnlikely) {
    Sampler sampler({.temperature = 3, .seed = 1, .top_k = 0, .top_p = 1, .min_p = 0.9F});
    for (int i = 0; i < 20; ++i) {
        EXPECT_EQ(sampler.sample(std::vector<float>{0, 1, 3, 2}), 2);
    }
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

constexpr const char* kChatMl =
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
    "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif "
    "%}";

TEST(Chat, RendersWithTheModelsTemplate) {
    const kaiju::test::TemporaryFolder folder;
    const auto engine = load_engine(
        kaiju::test::write_tiny_model(folder / "model.gguf", {.chat_template = kChatMl}), {.threads = 1});
    EXPECT_EQ(render_chat(*engine, {{"system", "short"}, {"user", "hi"}}, true),
              "<|im_start|>system\nshort<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
    const auto none = load_engine(kaiju::test::write_tiny_model(folder / "none.gguf"), {.threads = 1});
    EXPECT_THROW((void)render_chat(*none, {{"user", "hi"}}, true), Error);
    const auto odd = load_engine(
        kaiju::test::write_tiny_model(folder / "odd.gguf", {.chat_template = "{{ odd }}"}), {.threads = 1});
    EXPECT_THROW((void)render_chat(*odd, {{"user", "hi"}}, true), Error);
}

TEST(Chat, ATurnContinuesTheTextOfThoseBefore) {
    const kaiju::test::TemporaryFolder folder;
    const auto engine = load_engine(
        kaiju::test::write_tiny_model(folder / "model.gguf", {.chat_template = kChatMl}), {.threads = 1});
    const GenerateOptions options{.max_tokens = 6, .context = 512, .threads = 1};
    Conversation conversation(*engine, options, "be short");
    const Generated first = conversation.say("hi");
    const Generated second = conversation.say("and now?");
    const std::string whole = render_chat(
        *engine, {{"system", "be short"}, {"user", "hi"}, {"assistant", first.text}, {"user", "and now?"}},
        true);
    const Generated again = generate(*engine, engine->tokenize(whole, true, true), options);
    EXPECT_FALSE(second.tokens.empty() && again.tokens.empty());
    Conversation short_of_room(*engine, {.max_tokens = 6, .context = 16, .threads = 1}, "");
    EXPECT_THROW((void)short_of_room.say("a text that is longer than sixteen tokens, for sure"), Error);
}

}  // namespace
}  // namespace kaiju::runtime
