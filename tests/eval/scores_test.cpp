#include "eval/scores.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "codec/tensor_decoder.h"
#include "eval/capture.h"
#include "eval/excess_gates.h"
#include "eval/imatrix_collector.h"
#include "format/covariance.h"
#include "format/gguf_writer.h"
#include "format/taps.h"
#include "support/test_files.h"
#include "support/tiny_model.h"

namespace kaiju::eval {
namespace {

/// A tiny model, the same at Q4_0, importance, a sketch with every eigenpair.
struct Fixture {
    Fixture()
        : truth(format::ModelFile::open(kaiju::test::write_tiny_model(folder / "truth.gguf"))),
          made(format::ModelFile::open(
              kaiju::test::write_tiny_model(folder / "q4.gguf", {.type = GGML_TYPE_Q4_0}))) {
        const auto model = runtime::load_engine(folder / "truth.gguf", {.threads = 1});
        const std::string text = kaiju::test::tiny_text(4000);
        Monitor monitor;
        imatrix = to_imatrix(
            collect_importance(*model, text, {.ctx = 64, .chunks = 8, .threads = 2}, monitor), "t");
        CaptureOptions options{.out = folder / "s.sket", .ctx = 64, .stride = 1, .k = 192, .threads = 2};
        static_cast<void>(capture(*truth, *model, text, options, monitor));
        options.out = folder / "s.full";
        options.full = true;
        static_cast<void>(capture(*truth, *model, text, options, monitor));
    }

    [[nodiscard]] std::vector<TensorScore> score(const std::vector<uint32_t>& ks, int threads = 2) const {
        Monitor monitor;
        const format::SketchFile sketches(folder / "s.sket");
        return score_model(*truth, *made, imatrix, &sketches, {.ks = ks, .threads = threads}, monitor);
    }

    kaiju::test::TemporaryFolder folder;
    std::unique_ptr<format::ModelFile> truth;
    std::unique_ptr<format::ModelFile> made;
    format::Imatrix imatrix;
};

TEST(Scores, with_all_eigenpairs_the_excess_is_that_of_the_full_covariance) {
    const Fixture fixture;
    const auto scores = fixture.score({0, 192});
    ASSERT_EQ(scores.size(), 12U) << "six matrices in each of two layers";
    const format::CovarianceFile full(fixture.folder / "s.full");
    for (const TensorScore& score : scores) {
        const size_t index = *fixture.truth->find(score.name);
        const auto& info = fixture.truth->tensors()[index];
        const auto decode = [&](const format::ModelFile& file) {
            std::vector<float> weights(info.weights());
            const size_t at = *file.find(score.name);
            codec::make_tensor_decoder(file.tensors()[at], file.payload(at))
                ->decode_rows(0, info.rows(), weights.data());
            return weights;
        };
        const std::vector<float> exact = decode(*fixture.truth);
        const std::vector<float> made = decode(*fixture.made);
        const auto* entry = full.find(*format::tap_of(score.name));
        ASSERT_NE(entry, nullptr);
        const size_t cols = info.cols();
        std::vector<double> matrix(cols * cols);
        full.fill(*entry, std::span(matrix));
        const auto importance = fixture.imatrix.find(score.name)->mean_squares();
        double whole = 0;
        double diagonal = 0;
        double sketched_diagonal = 0;
        for (size_t row = 0; row < info.rows(); ++row) {
            const auto error = [&](size_t i) {
                return static_cast<double>(made[row * cols + i]) - static_cast<double>(exact[row * cols + i]);
            };
            for (size_t i = 0; i < cols; ++i) {
                diagonal += static_cast<double>(importance[i]) * error(i) * error(i);
                sketched_diagonal += matrix[i * cols + i] * error(i) * error(i);
                for (size_t j = 0; j < cols; ++j) {
                    whole += error(i) * matrix[i * cols + j] * error(j);
                }
            }
        }
        EXPECT_NEAR(score.diag_excess / diagonal, 1, 1e-5) << score.name;
        EXPECT_NEAR(score.full_excess.at(1) / whole, 1, 1e-3) << score.name;
        // Without eigenpairs the metric is the diagonal, of the positions that were captured.
        EXPECT_NEAR(score.full_excess.at(0) / sketched_diagonal, 1, 1e-3) << score.name;
        EXPECT_EQ(score.type, "Q4_0");
    }
}

TEST(Scores, threads_change_nothing_and_what_is_missing_is_named) {
    Fixture fixture;
    const auto one = fixture.score({32}, 1);
    const auto three = fixture.score({32}, 3);
    for (size_t i = 0; i < one.size(); ++i) {
        EXPECT_EQ(one[i].diag_excess, three[i].diag_excess);
        EXPECT_EQ(one[i].full_excess, three[i].full_excess);
    }
    Monitor monitor;
    const auto itself = score_model(*fixture.truth, *fixture.truth, fixture.imatrix, nullptr,
                                    {.ks = {}, .threads = 2}, monitor);
    EXPECT_EQ(itself.at(0).diag_excess, 0);
    EXPECT_TRUE(itself.at(0).full_excess.empty());
    fixture.imatrix.entries.erase("blk.1.ffn_up.weight");
    try {
        static_cast<void>(score_model(*fixture.truth, *fixture.made, fixture.imatrix, nullptr,
                                      {.ks = {}, .threads = 2}, monitor));
        FAIL() << "nothing was thrown";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::missing);
        EXPECT_NE(std::string(error.what()).find("blk.1.ffn_up.weight"), std::string::npos) << error.what();
    }
}

TensorScore tensor(const std::string& name, const std::string& type, double diag, std::vector<double> full,
                   uint64_t weights = 100) {
    return {
        .name = name, .type = type, .weights = weights, .diag_excess = diag, .full_excess = std::move(full)};
}

TEST(ExcessGates, only_tensors_of_the_named_type_are_compared) {
    const ScorePair all{
        .kaiju = {tensor("a", "KAIJU1", 1, {}), tensor("b", "KAIJU1", 1, {}), tensor("c", "F16", 0, {})},
        .iq = {tensor("a", "IQ3_XXS", 2, {}), tensor("b", "IQ4_NL", 2, {}, 1000),
               tensor("c", "IQ3_XXS", 2, {})}};
    EXPECT_EQ(main_iq_type(all.iq), "IQ3_XXS");
    EXPECT_EQ(comparable(all, "IQ3_XXS").kaiju.size(), 1U);
    EXPECT_EQ(comparable(all, "any").kaiju.size(), 2U);
    EXPECT_EQ(main_iq_type(all.kaiju), "");
    EXPECT_TRUE(comparable(all, "").kaiju.empty());
}

TEST(ExcessGates, g0_wants_the_diagonal_refuted) {
    const ScorePair pair{.kaiju = {tensor("blk.0.ffn_up.weight", "KAIJU1", 1, {}),
                                   tensor("blk.0.attn_q.weight", "KAIJU1", 3, {})},
                         .iq = {tensor("blk.0.ffn_up.weight", "IQ3_XXS", 4, {}),
                                tensor("blk.0.attn_q.weight", "IQ3_XXS", 2, {})}};
    const G0Result passed = judge_g0(pair, 30, 20);
    EXPECT_TRUE(passed.pass) << passed.reason;
    EXPECT_DOUBLE_EQ(passed.diag.ratio(), 4.0 / 6);
    EXPECT_EQ(passed.bad_roles, std::vector<std::string>{"attn_q"});
    EXPECT_DOUBLE_EQ(passed.roles.at("ffn_up").ratio(), 0.25);
    EXPECT_FALSE(judge_g0(pair, 20, 30).pass);
    EXPECT_FALSE(judge_g0(pair, std::nullopt, 30).pass);
    const ScorePair swapped{.kaiju = pair.iq, .iq = pair.kaiju};
    const G0Result failed = judge_g0(swapped, 30, 20);
    EXPECT_FALSE(failed.pass);
    EXPECT_NE(failed.reason.find("ffn_up"), std::string::npos) << failed.reason;
    EXPECT_FALSE(judge_g0({}, 30, 20).pass);
}

TEST(ExcessGates, g1_wants_the_pattern_for_every_k_where_most_is_at_stake) {
    ScorePair pair{.kaiju = {tensor("big", "KAIJU1", 5, {30, 31}), tensor("small", "KAIJU1", 5, {1, 1})},
                   .iq = {tensor("big", "IQ3_XXS", 6, {20, 21}), tensor("small", "IQ3_XXS", 1, {9, 9})}};
    const std::vector<TapAgreement> taps = {{.tap = "t", .weight = "w", .correlation = 0.99}};
    const G1Result passed = judge_g1(pair, taps, 0.5);
    EXPECT_TRUE(passed.pass) << passed.reason;
    EXPECT_EQ(passed.top, 1U) << "the small one does not matter";
    EXPECT_EQ(passed.shown, (std::vector<size_t>{1, 1}));
    EXPECT_DOUBLE_EQ(passed.full[0].ratio(), 1.5);
    EXPECT_EQ(judge_g1(pair, taps, 1).top, 2U);

    const std::vector<TapAgreement> bad_taps = {{.tap = "t", .weight = "w", .correlation = 0.95}};
    const G1Result disagreeing = judge_g1(pair, bad_taps, 0.5);
    EXPECT_FALSE(disagreeing.pass) << "more than 0.95 is wanted";
    EXPECT_EQ(disagreeing.disagreeing_taps, std::vector<std::string>{"t"});
    pair.iq[0].full_excess[0] = 30;
    EXPECT_FALSE(judge_g1(pair, taps, 0.5).pass) << "not for the first K";
    pair.iq[0].full_excess[0] = 20;
    pair.iq[0].diag_excess = 5;
    EXPECT_FALSE(judge_g1(pair, taps, 0.5).pass) << "not on the diagonal";
    EXPECT_FALSE(judge_g1({}, taps, 0.5).pass);
}

}  // namespace
}  // namespace kaiju::eval
