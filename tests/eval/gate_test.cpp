#include "eval/gate.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "eval/log_softmax.h"
#include "support/test_files.h"
#include "support/tiny_model.h"

namespace kaiju::eval {
namespace {

class GateTest : public ::testing::Test {
  protected:
    struct Model {
        std::unique_ptr<format::ModelFile> file;
        std::unique_ptr<runtime::Engine> engine;
    };
    Model load(const std::string& name, const kaiju::test::TinyModelOptions& options = {}) {
        const auto path = kaiju::test::write_tiny_model(folder_ / name, options);
        return {format::ModelFile::open(path), runtime::load_engine(path, {.threads = 1})};
    }
    Minted mint(const Model& model, MintOptions options = {}) {
        options.id = "tiny";
        options.prompt = options.prompt.empty() ? "the error of every block" : options.prompt;
        options.threads = 1;
        return mint_gate(*model.file, *model.engine, options, monitor_);
    }
    GateResult run(const format::Qspec& qspec, const Model& model, GateOptions options = {},
                   const Model* reference = nullptr) {
        options.threads = options.perplexity.threads = 1;
        options.perplexity.ctx = 64;
        options.perplexity.chunks = 4;
        return run_gate(qspec, *model.file, *model.engine,
                        reference == nullptr ? nullptr : reference->engine.get(), options, monitor_);
    }
    ErrorCode code_of(const format::Qspec& qspec, const Model& model, const GateOptions& options = {}) {
        try {
            (void)run(qspec, model, options);
        } catch (const Error& error) {
            return error.code();
        }
        ADD_FAILURE() << "no error";
        return ErrorCode::internal;
    }
    /// A token of that rank on the prompt of the qspec.
    static uint32_t token_of_rank(const format::Qspec& qspec, const Model& model, size_t rank) {
        const std::vector<runtime::Token> prompt(qspec.prompt_tokens.begin(), qspec.prompt_tokens.end());
        const auto logits = runtime::last_logits(*model.engine, prompt, 1);
        return static_cast<uint32_t>(top_tokens(logits, rank).back());
    }

    kaiju::test::TemporaryFolder folder_;
    Monitor monitor_;
    std::string text_ = kaiju::test::tiny_text(2000);
};

TEST_F(GateTest, MintingTakesTheTwoBestTokens) {
    const Model model = load("model.gguf");
    const Minted minted = mint(model, {.min_margin = 0});
    EXPECT_FALSE(minted.refused);
    EXPECT_EQ(minted.expect.rank, 1U);
    EXPECT_EQ(minted.reject.rank, 2U);
    EXPECT_GE(minted.margin, 0);
    EXPECT_EQ(minted.qspec.prompt_tokens.front(), 1U) << "the leading token is part of what is fed";
    EXPECT_EQ(minted.qspec.expect_token, token_of_rank(minted.qspec, model, 1));
    const format::Qspec read = format::parse_qspec(format::to_json_text(minted.qspec));
    EXPECT_EQ(read.prompt_tokens, minted.qspec.prompt_tokens);
    EXPECT_EQ(read.family, "llama");
}

TEST_F(GateTest, MintingRefusesSmallMarginsAndImpossibleTokens) {
    const Model model = load("model.gguf");
    const Minted minted = mint(model, {.min_margin = 100});
    EXPECT_TRUE(minted.refused);
    const auto last = static_cast<runtime::Token>(token_of_rank(minted.qspec, model, 50));
    const Minted other = mint(model, {.reject_token = last, .min_margin = 0});
    EXPECT_EQ(other.qspec.reject_token, static_cast<uint32_t>(last));
    EXPECT_EQ(other.reject.rank, 50U);
    EXPECT_THROW((void)mint(model, {.reject_token = static_cast<runtime::Token>(minted.qspec.expect_token)}),
                 Error);
    EXPECT_THROW((void)mint(model, {.reject_token = 99999}), Error);
    EXPECT_THROW((void)mint(model, {.min_margin = -1}), Error);
    EXPECT_THROW((void)mint_gate(*model.file, *model.engine, {.id = "../up", .prompt = "x"}, monitor_),
                 Error);
}

TEST_F(GateTest, TheModelItselfPasses) {
    const Model model = load("model.gguf");
    const format::Qspec qspec = mint(model, {.min_margin = 0}).qspec;
    const GateResult result = run(qspec, model, {.text = text_, .ppl_max = 1e6, .kl_max = 1e-9}, &model);
    EXPECT_TRUE(result.pass);
    EXPECT_TRUE(result.failures.empty());
    EXPECT_EQ(result.expect.rank, 1U);
    ASSERT_TRUE(result.perplexity);
    EXPECT_EQ(result.perplexity->divergence->mean_kl, 0);
    const auto answer = to_json(qspec, {}, result);
    EXPECT_EQ(answer.at("pass"), true);
    EXPECT_EQ(answer.at("rank"), 1);
    EXPECT_TRUE(answer.at("linear_bits").is_number());
    EXPECT_TRUE(to_log(qspec, {}, result).ends_with("PASS\n"));
}

TEST_F(GateTest, AnotherArgmaxFailsUnlessOnlyReported) {
    const Model model = load("model.gguf");
    format::Qspec qspec = mint(model, {.min_margin = 0}).qspec;
    qspec.expect_token = token_of_rank(qspec, model, 3);
    qspec.reject_token = token_of_rank(qspec, model, 4);
    const GateResult required = run(qspec, model);
    EXPECT_FALSE(required.pass);
    EXPECT_EQ(required.expect.rank, 3U);
    EXPECT_LT(required.margin, 0);
    EXPECT_TRUE(to_log(qspec, {}, required).ends_with("FAIL\n"));
    const GateResult reported = run(qspec, model, {.argmax = ArgmaxMode::report});
    EXPECT_TRUE(reported.pass);
    EXPECT_FALSE(reported.remarks.empty());
}

TEST_F(GateTest, TheRejectedTokenMustRankBelow) {
    const Model model = load("model.gguf");
    format::Qspec qspec = mint(model, {.min_margin = 0}).qspec;
    std::swap(qspec.expect_token, qspec.reject_token);
    const GateResult result = run(qspec, model);
    EXPECT_FALSE(result.pass);
    EXPECT_EQ(result.failures.size(), 2U) << "not the argmax, and behind the rejected token";
}

TEST_F(GateTest, CollapseAlwaysFails) {
    const Model model = load("model.gguf");
    format::Qspec qspec = mint(model, {.min_margin = 0}).qspec;
    qspec.expect_token = token_of_rank(qspec, model, kCollapseRank + 1);
    qspec.reject_token = token_of_rank(qspec, model, kCollapseRank + 2);
    EXPECT_FALSE(run(qspec, model, {.argmax = ArgmaxMode::report}).pass);
    qspec.expect_token = token_of_rank(qspec, model, kCollapseRank);
    EXPECT_TRUE(run(qspec, model, {.argmax = ArgmaxMode::report}).pass);
}

TEST_F(GateTest, LimitsFail) {
    const Model reference = load("f32.gguf");
    const Model model = load("q4.gguf", {.type = GGML_TYPE_Q4_0});
    const format::Qspec qspec = mint(reference, {.min_margin = 0}).qspec;
    const ArgmaxMode mode = ArgmaxMode::report;
    EXPECT_FALSE(run(qspec, model, {.argmax = mode, .text = text_, .ppl_max = 1.5}).pass);
    EXPECT_FALSE(run(qspec, model, {.argmax = mode, .text = text_, .kl_max = 1e-7}, &reference).pass);
    EXPECT_TRUE(run(qspec, model, {.argmax = mode, .text = text_, .kl_max = 10}, &reference).pass);
}

TEST_F(GateTest, RefusesLimitsThatCannotBeMeasured) {
    const Model model = load("model.gguf");
    const format::Qspec qspec = mint(model, {.min_margin = 0}).qspec;
    EXPECT_EQ(code_of(qspec, model, {.ppl_max = 10}), ErrorCode::usage) << "no text";
    EXPECT_EQ(code_of(qspec, model, {.text = text_, .kl_max = 1}), ErrorCode::usage) << "no reference";
    EXPECT_EQ(code_of(qspec, model, {.text = text_, .ppl_max = -1}), ErrorCode::usage);
    EXPECT_EQ(code_of(qspec, model, {.text = text_, .ppl_max = std::numeric_limits<double>::quiet_NaN()}),
              ErrorCode::usage);
}

TEST_F(GateTest, SaysWhyAQspecOrAModelIsNotReady) {
    const Model model = load("model.gguf");
    const format::Qspec good = mint(model, {.min_margin = 0}).qspec;
    format::Qspec qspec = good;
    qspec.prompt_tokens = {1};
    qspec.expect_token = 1;
    EXPECT_EQ(code_of(qspec, model), ErrorCode::missing) << "the sentinel of a gateway";
    qspec = good;
    qspec.modality = "image";
    EXPECT_EQ(code_of(qspec, model), ErrorCode::missing);
    qspec = good;
    qspec.reject_token = qspec.expect_token;
    EXPECT_EQ(code_of(qspec, model), ErrorCode::missing);
    qspec = good;
    qspec.prompt_tokens.push_back(99999);
    EXPECT_EQ(code_of(qspec, model), ErrorCode::missing);
}

}  // namespace
}  // namespace kaiju::eval
