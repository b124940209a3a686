#include "runtime/engine.h"

#include <gtest/gtest.h>

#include <map>
#include <stdexcept>

#include "base/error.h"
#include "code_of.h"
#include "runtime/llama_log.h"
#include "support/test_files.h"
#include "support/tiny_model.h"

namespace kaiju::runtime {
namespace {

using kaiju::test::TemporaryFolder;
using kaiju::test::write_tiny_model;

class EngineTest : public ::testing::Test {
  protected:
    std::unique_ptr<Engine> load(const kaiju::test::TinyModelOptions& options = {}) {
        return load_engine(write_tiny_model(folder_ / "model.gguf", options), {.threads = 2});
    }
    TemporaryFolder folder_;
};

TEST_F(EngineTest, KnowsTheModel) {
    const auto engine = load({.context = 128, .chat_template = "{{ messages }}"});
    EXPECT_EQ(engine->name(), "llama");
    EXPECT_EQ(engine->architecture(), "llama");
    EXPECT_EQ(engine->vocabulary_size(), kaiju::test::tiny_vocabulary_size());
    EXPECT_EQ(engine->trained_context(), 128U);
    EXPECT_EQ(engine->chat_template(), "{{ messages }}");
    EXPECT_EQ(engine->leading_token(), 1);
    EXPECT_FALSE(engine->appends_eos());
    EXPECT_FALSE(engine->mixture_of_experts());
    EXPECT_TRUE(engine->ends_generation(2));
    EXPECT_FALSE(engine->ends_generation(70));
}

TEST_F(EngineTest, TokensSpellTheText) {
    const auto engine = load();
    const std::string text = "the error of every block\nis small \xC3\xA9";
    const std::vector<Token> tokens = engine->tokenize(text, true, false);
    ASSERT_FALSE(tokens.empty());
    EXPECT_EQ(tokens.front(), 1);
    std::string spelled;
    for (const Token token : tokens) {
        spelled += engine->piece(token, false);
    }
    EXPECT_EQ(spelled, " " + text) << "SPM puts a space before a text";
    EXPECT_EQ(engine->piece(1, true), "<s>");
    EXPECT_EQ(engine->tokenize("<s>", false, true), std::vector<Token>{1});
    EXPECT_GT(engine->tokenize("<s>", false, false).size(), 1U);
}

TEST_F(EngineTest, SequencesSideBySideAreTheSameAsAlone) {
    const auto engine = load();
    const std::vector<std::vector<Token>> texts = {{1, 70, 80, 90}, {1, 100, 71, 300}};
    const auto context = engine->make_context({.n_ctx = 8, .n_seq = 2, .threads = 2});
    std::vector<BatchToken> batch;
    for (int32_t sequence = 0; sequence < 2; ++sequence) {
        for (int32_t i = 0; i < 4; ++i) {
            batch.push_back(
                {.token = texts[sequence][i], .position = i, .sequence = sequence, .logits = i == 3});
        }
    }
    const std::span<const float> together = context->evaluate(batch);
    const size_t vocabulary = engine->vocabulary_size();
    ASSERT_EQ(together.size(), 2 * vocabulary);
    for (size_t sequence = 0; sequence < 2; ++sequence) {
        const std::vector<float> alone = last_logits(*engine, texts[sequence], 2);
        for (size_t i = 0; i < vocabulary; ++i) {
            ASSERT_NEAR(together[sequence * vocabulary + i], alone[i], 1e-3) << "sequence " << sequence;
        }
    }
}

TEST_F(EngineTest, ClearForgets) {
    const auto engine = load();
    const auto context = engine->make_context({.n_ctx = 4, .threads = 1});
    const std::vector<BatchToken> batch = {{.token = 1, .position = 0},
                                           {.token = 70, .position = 1, .logits = true}};
    const auto first = context->evaluate(batch);
    const std::vector<float> before(first.begin(), first.end());
    context->clear();
    const auto second = context->evaluate(batch);
    EXPECT_EQ(before, std::vector<float>(second.begin(), second.end()));
}

TEST_F(EngineTest, SplitFilesAreOneModel) {
    const auto whole = load({.seed = 7});
    const auto split =
        load_engine(write_tiny_model(folder_ / "split.gguf", {.seed = 7, .parts = 3}), {.threads = 2});
    const std::vector<Token> tokens = {1, 70, 80};
    EXPECT_EQ(last_logits(*whole, tokens, 1), last_logits(*split, tokens, 1));
}

TEST_F(EngineTest, RunsTiedHeadsBiasesAndStockTypes) {
    for (const auto& options : {kaiju::test::TinyModelOptions{.tied = true},
                                {.biases = true, .architecture = "qwen2"},
                                {.width = 120, .type = GGML_TYPE_F16},
                                {.type = GGML_TYPE_Q8_0},
                                {.type = GGML_TYPE_Q4_0}}) {
        const auto engine = load(options);
        const std::vector<float> logits = last_logits(*engine, std::vector<Token>{1, 70}, 1);
        EXPECT_EQ(logits.size(), engine->vocabulary_size());
        EXPECT_NE(logits[0], logits[1]);
    }
}

TEST_F(EngineTest, RefusesWhatCannotBeEvaluated) {
    const auto engine = load();
    std::string message;
    EXPECT_EQ(code_of(
                  [&] {
                      (void)last_logits(*engine, std::vector<Token>{1, 99999}, 1);
                  },
                  &message),
              ErrorCode::bad_input);
    EXPECT_NE(message.find("99999"), std::string::npos);
    EXPECT_EQ(code_of([&] { (void)last_logits(*engine, std::vector<Token>{-1}, 1); }), ErrorCode::bad_input);
    EXPECT_EQ(code_of([&] { (void)last_logits(*engine, {}, 1); }), ErrorCode::usage);
    EXPECT_EQ(code_of([&] { (void)engine->piece(99999, true); }), ErrorCode::bad_input);
    EXPECT_EQ(code_of([&] { (void)engine->make_context({.n_ctx = 0}); }), ErrorCode::usage);
    EXPECT_EQ(code_of([&] { (void)engine->make_context({.n_ctx = 1, .n_seq = 100000}); }), ErrorCode::usage);

    const auto context = engine->make_context({.n_ctx = 4, .n_seq = 2, .threads = 1});
    const auto evaluate = [&](const BatchToken& token) { (void)context->evaluate(std::span(&token, 1)); };
    EXPECT_EQ(code_of([&] { evaluate({.token = 397}); }), ErrorCode::bad_input);
    EXPECT_EQ(code_of([&] { evaluate({.position = 4}); }), ErrorCode::bad_input);
    EXPECT_EQ(code_of([&] { evaluate({.position = -1}); }), ErrorCode::bad_input);
    EXPECT_EQ(code_of([&] { evaluate({.sequence = 2}); }), ErrorCode::bad_input);
    EXPECT_EQ(code_of([&] { (void)context->evaluate({}); }), ErrorCode::usage);
    EXPECT_EQ(code_of([&] { (void)context->evaluate(std::vector<BatchToken>(9)); }), ErrorCode::usage);
    // A hole in the positions passes our checks; llama.cpp's own refusal becomes an error with its reason.
    EXPECT_EQ(code_of([&] {
                  evaluate({.token = 1, .position = 0});
                  evaluate({.token = 1, .position = 2});
              }),
              ErrorCode::internal);
}

TEST_F(EngineTest, NamesTheFileAndTheReasonWhereLoadingFails) {
    std::string message;
    EXPECT_EQ(code_of([&] { (void)load_engine(folder_ / "absent.gguf", {}); }), ErrorCode::missing);
    EXPECT_EQ(code_of([&] { (void)load({.architecture = "nonesuch"}); }, &message), ErrorCode::bad_input);
    EXPECT_NE(message.find("model.gguf"), std::string::npos) << message;
    EXPECT_NE(message.find("nonesuch"), std::string::npos) << message;

    const auto path = write_tiny_model(folder_ / "short.gguf");
    const std::string bytes = kaiju::test::slurp(path);
    kaiju::test::spill(path, std::string_view(bytes).substr(0, bytes.size() / 2));
    EXPECT_EQ(code_of([&] { (void)load_engine(path, {}); }, &message), ErrorCode::bad_input);
    EXPECT_NE(message.find("short.gguf"), std::string::npos) << message;
    EXPECT_EQ(code_of([&] { (void)load_engine(path, {.engine = "none"}); }), ErrorCode::usage);
    EXPECT_EQ(code_of([&] { (void)weight_type_named("q8_0"); }), ErrorCode::usage);
}

class CancelledMonitor final : public Monitor {
  public:
    [[nodiscard]] bool cancelled() const override { return true; }
};

TEST_F(EngineTest, StopsWhenCancelled) {
    const auto engine = load();
    const CancelledMonitor monitor;
    EXPECT_EQ(code_of([&] {
                  (void)last_logits(*engine, std::vector<Token>{1, 70}, 1, &monitor);
              }),
              ErrorCode::interrupted);
}

class RecordingTap final : public ActivationTap {
  public:
    bool wants(std::string_view weight) override { return weight.starts_with("blk."); }
    void see(std::string_view weight, size_t rows, size_t cols, const float* data, size_t stride) override {
        auto& sum = inputs[std::string(weight)];
        for (size_t row = 0; row < rows; ++row) {
            sum.insert(sum.end(), data + row * stride, data + row * stride + cols);
        }
    }
    std::map<std::string, std::vector<float>> inputs;
};

TEST_F(EngineTest, TapSeesTheInputsOfEveryMatrix) {
    const auto engine = load();
    RecordingTap tap;
    const auto context = engine->make_context({.n_ctx = 20, .threads = 2, .tap = &tap});
    std::vector<BatchToken> batch;
    batch.reserve(20);
    for (int32_t i = 0; i < 20; ++i) {
        batch.push_back({.token = 60 + i, .position = i, .logits = true});
    }
    (void)context->evaluate(batch);
    EXPECT_EQ(tap.inputs.size(), 14U) << "seven matrices in each of two layers";
    for (const auto& [name, values] : tap.inputs) {
        const size_t cols = name.find("ffn_down") == std::string::npos ? 96 : 192;
        EXPECT_EQ(values.size(), 20 * cols) << name;
    }
    EXPECT_EQ(tap.inputs["blk.0.attn_q.weight"], tap.inputs["blk.0.attn_v.weight"]);
    EXPECT_EQ(tap.inputs["blk.1.ffn_gate.weight"], tap.inputs["blk.1.ffn_up.weight"]);
    EXPECT_NE(tap.inputs["blk.0.attn_q.weight"], tap.inputs["blk.1.attn_q.weight"]);
}

class ThrowingTap final : public ActivationTap {
  public:
    bool wants(std::string_view weight) override { return weight == "blk.1.attn_output.weight"; }
    void see(std::string_view, size_t, size_t, const float*, size_t) override {
        throw Error(ErrorCode::bad_input, "enough");
    }
};

TEST_F(EngineTest, WhatATapThrowsLeavesEvaluate) {
    const auto engine = load();
    ThrowingTap tap;
    const auto context = engine->make_context({.n_ctx = 4, .threads = 2, .tap = &tap});
    const BatchToken token{.token = 1, .logits = true};
    std::string message;
    EXPECT_EQ(code_of([&] { (void)context->evaluate(std::span(&token, 1)); }, &message),
              ErrorCode::bad_input);
    EXPECT_EQ(message, "enough");
}

TEST_F(EngineTest, LogGoesWhereItIsSentAndNowhereElse) {
    std::vector<std::string> lines;
    set_llama_log([&](std::string_view line) { lines.emplace_back(line); });
    (void)load();
    set_llama_log({});
    const size_t count = lines.size();
    EXPECT_GT(count, 10U);
    ::testing::internal::CaptureStderr();
    (void)load();
    EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
    EXPECT_EQ(lines.size(), count);
}

}  // namespace
}  // namespace kaiju::runtime
