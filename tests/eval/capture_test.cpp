#include "eval/capture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/error.h"
#include "eval/chunks.h"
#include "eval/imatrix_collector.h"
#include "eval/imatrix_of_taps.h"
#include "eval/sketch_check.h"
#include "eval/sketch_make.h"
#include "format/covariance.h"
#include "format/taps.h"
#include "support/test_files.h"
#include "support/tiny_model.h"

namespace kaiju::eval {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kCtx = 64;

struct Fixture {
    explicit Fixture(const kaiju::test::TinyModelOptions& options = {})
        : path(kaiju::test::write_tiny_model(folder / "model.gguf", options)),
          file(format::ModelFile::open(path)),
          model(runtime::load_engine(path, {.threads = 1})) {}

    Captured run(const CaptureOptions& options) const {
        Monitor monitor;
        return capture(*file, *model, text, options, monitor);
    }
    [[nodiscard]] CaptureOptions options(const std::string& name) const {
        return {.out = folder / name,
                .model_id = "tiny",
                .source = "text",
                .ctx = kCtx,
                .max_tokens = 6 * kCtx,
                .k = 8,
                .threads = 2};
    }

    kaiju::test::TemporaryFolder folder;
    fs::path path;
    std::unique_ptr<format::ModelFile> file;
    std::unique_ptr<runtime::Engine> model;
    std::string text = kaiju::test::tiny_text(3000);
};

/// E[x xᵀ] of one matrix's input, all products in f64, at every second position.
class SlowMoments final : public runtime::ActivationTap {
  public:
    explicit SlowMoments(std::string weight) : wanted(std::move(weight)) {}
    bool wants(std::string_view weight) override { return weight == wanted; }
    void see(std::string_view /*weight*/, size_t rows, size_t cols, const float* data,
             size_t stride) override {
        dim = cols;
        sums.resize(cols * cols);
        for (size_t row = 0; row < rows; row += 2, ++samples) {
            for (size_t i = 0; i < cols; ++i) {
                for (size_t j = 0; j < cols; ++j) {
                    sums[i * cols + j] += static_cast<double>(data[row * stride + i]) *
                                          static_cast<double>(data[row * stride + j]);
                }
            }
        }
    }
    std::string wanted;
    size_t dim = 0;
    size_t samples = 0;
    std::vector<double> sums;
};

SlowMoments slow_moments(const Fixture& fixture, size_t chunks,
                         const std::string& weight = "blk.1.ffn_down.weight") {
    SlowMoments tap(weight);
    const auto tokens = tokenize_text(*fixture.model, fixture.text, kCtx);
    ChunkRunner runner(*fixture.model, {.ctx = kCtx, .n_seq = 1, .n_batch = kCtx}, 0, 1, nullptr, &tap);
    for (size_t chunk = 0; chunk < chunks; ++chunk) {
        runner.evaluate(tokens, chunk, 1);
    }
    return tap;
}

/// Cancelled after some tokens.
class Impatient final : public Monitor {
  public:
    explicit Impatient(uint64_t limit) : limit_(limit) {}
    void advance(uint64_t units) override { seen_ += units; }
    [[nodiscard]] bool cancelled() const override { return seen_ >= limit_; }

  private:
    uint64_t limit_;
    uint64_t seen_ = 0;
};

TEST(Capture, full_covariances_are_those_of_the_activations) {
    const Fixture fixture;
    CaptureOptions options = fixture.options("x.full");
    options.full = true;
    const Captured captured = fixture.run(options);
    EXPECT_EQ(captured.chunks, 6U);
    EXPECT_EQ(captured.samples, 6U * kCtx / 2);
    EXPECT_EQ(captured.taps.size(), 8U) << "four taps in each of two layers";
    const format::CovarianceFile file(options.out);
    EXPECT_EQ(file.model_id(), "tiny");
    ASSERT_TRUE(file.calibration());
    EXPECT_EQ(file.calibration()->source, "text");
    EXPECT_FALSE(file.calibration()->window_hashes.empty());
    const auto* entry = file.find("blk.1.ffn_down_in");
    ASSERT_NE(entry, nullptr);
    const SlowMoments slow = slow_moments(fixture, 6);
    ASSERT_EQ(entry->dim, slow.dim);
    EXPECT_EQ(entry->samples, slow.samples);
    std::vector<double> dense(slow.dim * slow.dim);
    file.fill(*entry, std::span(dense));
    for (size_t i = 0; i < slow.dim; ++i) {
        for (size_t j = 0; j < slow.dim; ++j) {
            const double scale = std::sqrt(dense[i * slow.dim + i] * dense[j * slow.dim + j]);
            EXPECT_NEAR(dense[i * slow.dim + j],
                        slow.sums[i * slow.dim + j] / static_cast<double>(slow.samples), 3e-6 * scale);
        }
    }
    EXPECT_FALSE(fs::exists(options.out.string() + ".part"));
    EXPECT_FALSE(fs::exists(options.out.string() + ".part.state"));
}

TEST(Capture, a_sketch_from_the_covariances_is_that_of_the_capture) {
    const Fixture fixture;
    CaptureOptions options = fixture.options("x.full");
    options.full = true;
    static_cast<void>(fixture.run(options));
    CaptureOptions sketch = fixture.options("x.sket");
    static_cast<void>(fixture.run(sketch));
    Monitor monitor;
    write_sketches(format::CovarianceFile(options.out), 8, fixture.folder / "made.sket", 2, monitor);
    const format::SketchFile made(fixture.folder / "made.sket");
    const format::SketchFile captured(sketch.out);
    ASSERT_EQ(made.entries().size(), captured.entries().size());
    EXPECT_EQ(made.model_id(), "tiny");
    for (const auto& entry : captured.entries()) {
        const format::Sketch a = made.find(entry.tap)->load();
        const format::Sketch b = entry.load();
        EXPECT_EQ(a.diag, b.diag);
        for (size_t j = 0; j < 8; ++j) {
            EXPECT_NEAR(a.eigval[j] / b.eigval[j], 1, 1e-5) << entry.tap;
        }
    }
}

TEST(Capture, the_last_layer_sees_every_position_too) {
    const Fixture fixture;
    const CaptureOptions options = fixture.options("x.sket");
    static_cast<void>(fixture.run(options));
    const format::SketchFile file(options.out);
    ASSERT_EQ(file.entries().size(), 8U);
    for (const auto& entry : file.entries()) {
        EXPECT_EQ(entry.samples, 6U * kCtx / 2) << entry.tap;
        EXPECT_EQ(entry.k, 8U);
        EXPECT_EQ(entry.dim, entry.tap.ends_with("ffn_down_in") ? 192U : 96U);
    }
}

TEST(Capture, threads_do_not_change_a_byte) {
    const Fixture fixture({.ffn = 960});
    for (const uint64_t memory : {uint64_t{1} << 30, uint64_t{3'000'000}}) {
        std::string first;
        for (const int threads : {1, 2, 3}) {
            CaptureOptions options = fixture.options(std::to_string(threads) + "-" + std::to_string(memory));
            options.threads = threads;
            options.memory = memory;
            const Captured captured = fixture.run(options);
            const auto sketched =
                std::ranges::count_if(captured.taps, [](const TapPlan& tap) { return !tap.gram; });
            EXPECT_EQ(sketched, memory > 3'000'000 ? 0 : 2);
            const std::string bytes = kaiju::test::slurp(options.out);
            EXPECT_TRUE(first.empty() || bytes == first) << threads << " threads";
            first = bytes;
        }
    }
}

TEST(Capture, goes_on_after_an_interrupt_and_comes_to_the_same_bytes) {
    const Fixture fixture;
    CaptureOptions options = fixture.options("whole.sket");
    static_cast<void>(fixture.run(options));
    const std::string whole = kaiju::test::slurp(options.out);

    options.out = fixture.folder / "cut.sket";
    Impatient monitor(2 * kCtx);
    try {
        static_cast<void>(capture(*fixture.file, *fixture.model, fixture.text, options, monitor));
        FAIL() << "not interrupted";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::interrupted);
        EXPECT_NE(std::string(error.what()).find("2 of 6 chunks"), std::string::npos) << error.what();
    }
    EXPECT_FALSE(fs::exists(options.out));
    const auto code_of = [&](const CaptureOptions& again) {
        try {
            static_cast<void>(fixture.run(again));
        } catch (const Error& error) {
            return error.code();
        }
        return ErrorCode::internal;
    };
    EXPECT_EQ(code_of(options), ErrorCode::usage) << "without --resume";
    options.resume = true;
    CaptureOptions other = options;
    other.stride = 1;
    EXPECT_EQ(code_of(other), ErrorCode::usage) << "with other settings";
    const std::string state = kaiju::test::slurp(options.out.string() + ".part.state");
    std::string damaged = state;
    damaged.back() = static_cast<char>(damaged.back() ^ 1);
    kaiju::test::spill(options.out.string() + ".part.state", damaged);
    EXPECT_EQ(code_of(options), ErrorCode::bad_input) << "damaged";
    kaiju::test::spill(options.out.string() + ".part.state", state);

    const Captured captured = fixture.run(options);
    EXPECT_EQ(captured.resumed_chunks, 2U);
    EXPECT_EQ(kaiju::test::slurp(options.out), whole);
    EXPECT_FALSE(fs::exists(options.out.string() + ".part.state"));
    EXPECT_EQ(code_of(options), ErrorCode::output_exists);
}

TEST(Capture, the_heads_input_is_a_tap_where_it_is_asked_for) {
    for (const bool tied : {false, true}) {
        const Fixture fixture({.tied = tied});
        CaptureOptions options = fixture.options("head.full");
        options.full = options.head = true;
        const Captured captured = fixture.run(options);
        EXPECT_EQ(captured.taps.size(), 9U);
        const format::CovarianceFile file(options.out);
        const auto* entry = file.find("output_in");
        ASSERT_NE(entry, nullptr);
        const SlowMoments slow = slow_moments(fixture, 6, tied ? "token_embd.weight" : "output.weight");
        EXPECT_EQ(entry->samples, slow.samples);
        const std::vector<float> diagonal = file.diagonal(*entry);
        ASSERT_EQ(diagonal.size(), slow.dim);
        for (size_t i = 0; i < slow.dim; ++i) {
            const double mean = slow.sums[i * slow.dim + i] / static_cast<double>(slow.samples);
            EXPECT_NEAR(diagonal[i] / mean, 1, 1e-5);
        }
        const format::Imatrix imatrix = imatrix_of(*fixture.file, file);
        EXPECT_NE(imatrix.find(tied ? "token_embd.weight" : "output.weight"), nullptr);
    }
}

TEST(Capture, what_does_not_fit_the_memory_is_sketched_or_refused) {
    const Fixture fixture({.ffn = 960});
    // All Gram matrices: 6 of 96 columns and 2 of 960.
    const auto bytes = [](uint32_t dim) { return stats::GramAccumulator::bytes_of(dim); };
    const uint64_t all = 6 * bytes(96) + 2 * bytes(960);
    const auto is_gram = [](const std::vector<TapPlan>& taps, const std::string& tap) {
        return std::ranges::find_if(taps, [&](const TapPlan& one) { return one.tap == tap; })->gram;
    };
    EXPECT_TRUE(is_gram(plan_taps(*fixture.file, 8, false, all), "blk.1.ffn_down_in"));
    const auto tight = plan_taps(*fixture.file, 8, false, all - 1);
    EXPECT_FALSE(is_gram(tight, "blk.1.ffn_down_in"));
    EXPECT_TRUE(is_gram(tight, "blk.1.ffn_in"));
    EXPECT_THROW(static_cast<void>(plan_taps(*fixture.file, 8, true, all - 1)), Error);
    EXPECT_THROW(static_cast<void>(plan_taps(*fixture.file, 8, false, 1000)), Error);

    CaptureOptions options = fixture.options("n.sket");
    options.memory = all - 1;
    static_cast<void>(fixture.run(options));
    CaptureOptions exact = fixture.options("g.sket");
    static_cast<void>(fixture.run(exact));
    const format::SketchFile sketched(options.out);
    const format::SketchFile whole(exact.out);
    const format::Sketch a = sketched.find("blk.0.ffn_down_in")->load();
    const format::Sketch b = whole.find("blk.0.ffn_down_in")->load();
    EXPECT_EQ(a.diag, b.diag) << "the diagonal is exact either way";
    EXPECT_NEAR(a.eigval[0] / b.eigval[0], 1, 0.05);
    EXPECT_EQ(sketched.find("blk.0.ffn_in")->load().eigvec, whole.find("blk.0.ffn_in")->load().eigvec);
}

TEST(Capture, agrees_with_the_importance_matrix_of_the_same_text) {
    const Fixture fixture;
    CaptureOptions options = fixture.options("x.sket");
    options.stride = 1;
    static_cast<void>(fixture.run(options));
    Monitor monitor;
    format::Imatrix imatrix = to_imatrix(
        collect_importance(*fixture.model, fixture.text, {.ctx = kCtx, .chunks = 6, .threads = 1}, monitor),
        "t");
    const format::SketchFile file(options.out);
    for (const TapAgreement& tap : compare_with_imatrix(file, imatrix)) {
        EXPECT_GT(tap.correlation, 0.999) << tap.tap << " and " << tap.weight;
        EXPECT_EQ(format::tap_of(tap.weight), tap.tap);
    }
    imatrix.entries.erase("blk.1.ffn_down.weight");
    auto& sums = imatrix.entries["blk.0.attn_output.weight"].sum_of_squares;
    std::ranges::reverse(sums);
    size_t failed = 0;
    for (const TapAgreement& tap : compare_with_imatrix(file, imatrix)) {
        failed += tap.agrees() ? 0 : 1;
        EXPECT_EQ(tap.agrees(), tap.tap != "blk.1.ffn_down_in" && tap.tap != "blk.0.attn_out_in") << tap.tap;
    }
    EXPECT_EQ(failed, 2U);
}

TEST(Capture, refuses_options_that_make_no_sense) {
    const Fixture fixture;
    for (const auto& change : std::vector<std::function<void(CaptureOptions&)>>{
             [](auto& o) { o.stride = 0; }, [](auto& o) { o.stride = kCtx + 1; },
             [](auto& o) { o.max_tokens = kCtx - 1; }, [](auto& o) { o.ctx = 1 << 21; }}) {
        CaptureOptions options = fixture.options("never");
        change(options);
        EXPECT_THROW(static_cast<void>(fixture.run(options)), Error);
        EXPECT_FALSE(fs::exists(options.out));
    }
}

TEST(RankCorrelation, is_spearman_s) {
    const std::vector<float> up = {1, 2, 3, 4, 5};
    EXPECT_EQ(rank_correlation(up, std::vector<float>{10, 20, 30, 40, 1000}), 1);
    EXPECT_EQ(rank_correlation(up, std::vector<float>{5, 4, 3, 2, 1}), -1);
    EXPECT_DOUBLE_EQ(rank_correlation(up, std::vector<float>{2, 1, 4, 3, 5}), 0.8);
    // Ties: ranks 0.5 0.5 2 3 4 against 0 1 2 3 4.
    EXPECT_NEAR(rank_correlation(std::vector<float>{1, 1, 2, 3, 4}, up), 0.9746794, 1e-6);
    EXPECT_EQ(rank_correlation(std::vector<float>{3, 3, 3}, std::vector<float>{1, 1, 1}), 1);
    EXPECT_EQ(rank_correlation(std::vector<float>{3, 3, 3}, std::vector<float>{1, 2, 3}), 0);
}

TEST(ImatrixOfTaps, HasTheNumbersOfAPassOfItsOwn) {
    const Fixture fixture;
    CaptureOptions options = fixture.options("model.full");
    options.full = true;
    options.stride = 1;
    (void)fixture.run(options);
    const format::CovarianceFile covariances(options.out);
    options.out = fixture.folder / "model.sket";
    options.full = false;
    (void)fixture.run(options);
    Monitor monitor;
    const Importance measured =
        collect_importance(*fixture.model, fixture.text, {.ctx = kCtx, .chunks = 6, .threads = 1}, monitor);
    const format::Imatrix expected = to_imatrix(measured, "text");
    const format::SketchFile sketches(options.out);
    for (const auto& made : {imatrix_of(*fixture.file, covariances), imatrix_of(*fixture.file, sketches)}) {
        ASSERT_EQ(made.entries.size(), expected.entries.size());
        for (const auto& [name, entry] : expected.entries) {
            const format::ImatrixEntry* const own = made.find(name);
            ASSERT_NE(own, nullptr) << name;
            EXPECT_EQ(own->count, entry.count);
            for (size_t i = 0; i < entry.sum_of_squares.size(); ++i) {
                ASSERT_NEAR(own->sum_of_squares[i], entry.sum_of_squares[i], 1e-6 * entry.sum_of_squares[i])
                    << name << ", " << i;
            }
        }
    }
    EXPECT_TRUE(format::calibration_of(imatrix_of(*fixture.file, covariances)));

    const Fixture wider({.ffn = 288});
    EXPECT_THROW((void)imatrix_of(*wider.file, covariances), Error);
}

}  // namespace
}  // namespace kaiju::eval
