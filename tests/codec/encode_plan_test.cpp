#include "codec/encode_plan.h"

#include <gtest/gtest.h>

#include <limits>

#include "codec/encode_fixture.h"

namespace kaiju::codec {
namespace {

using test::EncodeFixture;
using test::expect_error;

const PlanEntry& entry_of(const EncodePlan& plan, std::string_view name) {
    for (const auto& entry : plan.entries) {
        if (entry.info.name == name) {
            return entry;
        }
    }
    throw std::out_of_range(std::string(name));
}

TEST(EncodePlan, EncodesTheSixRolesAndCopiesTheRest) {
    const EncodeFixture fixture;
    const EncodePlan plan = plan_encode(fixture.options());
    EXPECT_EQ(entry_of(plan, "blk.0.attn_q.weight").action, PlanEntry::Action::encode);
    EXPECT_EQ(entry_of(plan, "blk.1.ffn_down.weight").info.type, "KAIJU1");
    EXPECT_EQ(entry_of(plan, "blk.0.attn_v.weight").action, PlanEntry::Action::copy);
    EXPECT_EQ(entry_of(plan, "token_embd.weight").info.type, "F32");
    EXPECT_EQ(entry_of(plan, "gguf_kv").action, PlanEntry::Action::key_values);

    uint64_t bytes = 0;
    uint64_t weights = 0;
    for (const auto& entry : plan.entries) {
        if (entry.action == PlanEntry::Action::encode) {
            bytes += entry.info.nbytes;
            weights += entry.info.weights();
        }
    }
    EXPECT_DOUBLE_EQ(plan.linear_bits(), 8.0 * static_cast<double>(bytes) / static_cast<double>(weights));
    EXPECT_EQ(plan.encoded_weights(), weights);
}

TEST(EncodePlan, PatternsAndRulesDecideAndTheLastRuleWins) {
    const EncodeFixture fixture;
    EncodeOptions options = fixture.options();
    options.exclude = {"blk\\.1\\."};
    options.types = {{"ffn_", "COPY"}, {"ffn_down", "KAIJU1"}, {"attn_v", "Q8_0"}};
    const EncodePlan plan = plan_encode(options);
    EXPECT_EQ(entry_of(plan, "blk.0.attn_q.weight").info.type, "KAIJU1");
    EXPECT_EQ(entry_of(plan, "blk.1.attn_q.weight").action, PlanEntry::Action::copy);
    EXPECT_EQ(entry_of(plan, "blk.0.ffn_up.weight").action, PlanEntry::Action::copy);
    EXPECT_EQ(entry_of(plan, "blk.1.ffn_down.weight").info.type, "KAIJU1");
    EXPECT_EQ(entry_of(plan, "blk.0.attn_v.weight").action, PlanEntry::Action::quantise);
    EXPECT_EQ(entry_of(plan, "blk.0.attn_v.weight").info.type, "Q8_0");

    options.include = {"blk.0.attn_q"};
    options.exclude = {};
    options.types = {};
    uint64_t encoded = 0;
    for (const auto& entry : plan_encode(options).entries) {
        encoded += entry.action == PlanEntry::Action::encode;
    }
    EXPECT_EQ(encoded, 1U);
}

TEST(EncodePlan, ATiedHeadIsStoredOnceUnderTheEmbeddingsName) {
    const EncodeFixture fixture({.copied_head = true});
    EncodeOptions options = fixture.options();
    const EncodePlan twice = plan_encode(options);
    options.tie_head = true;
    options.types = {{"^token_embd", "Q8_0"}};
    const EncodePlan once = plan_encode(options);
    EXPECT_EQ(once.entries.size() + 1, twice.entries.size());
    EXPECT_THROW(entry_of(once, "output.weight"), std::out_of_range);
    const PlanEntry& both = entry_of(once, "token_embd.weight");
    EXPECT_EQ(both.info.type, "Q8_0");
    EXPECT_EQ(once.model->tensors()[both.source].name, "output.weight");  // the weights are the head's
    options.types = {{"^output.weight", "Q8_0"}};
    expect_error(ErrorCode::usage, "^output.weight: no tensor", [&] { (void)plan_encode(options); });
}

TEST(EncodePlan, TwoMatricesAreNotTied) {
    const EncodeFixture apart;
    EncodeOptions options = apart.options();
    options.tie_head = true;
    expect_error(ErrorCode::usage, "they are two matrices", [&] { (void)plan_encode(options); });
    const EncodeFixture tied({.tied = true});
    options = tied.options();
    options.tie_head = true;
    expect_error(ErrorCode::usage, "has no output.weight", [&] { (void)plan_encode(options); });
}

TEST(EncodePlan, IncludeAndExcludeChooseAmongWhatMayBeEncoded) {
    EncodeFixture fixture;
    auto& entry = fixture.imatrix().entries["blk.1.attn_v.weight"];
    entry = fixture.imatrix().entries["blk.1.attn_q.weight"];
    fixture.write_imatrix("more.gguf");
    EncodeOptions options = fixture.options();
    options.include = {"blk.1"};  // two norms match too
    uint64_t encoded = 0;
    const EncodePlan plan = plan_encode(options);
    for (const auto& planned : plan.entries) {
        encoded += planned.action == PlanEntry::Action::encode;
    }
    EXPECT_EQ(encoded, 7U) << "six roles, and attn_v, whose importances are known";
    EXPECT_EQ(entry_of(plan, "blk.1.attn_norm.weight").action, PlanEntry::Action::copy);

    options.include = {"blk.0.attn_v"};  // without importances
    expect_error(ErrorCode::usage, "may be encoded", [&] { (void)plan_encode(options); });
    options.include = {"norm"};
    expect_error(ErrorCode::usage, "may be encoded", [&] { (void)plan_encode(options); });
    options.include = {};
    options.exclude = {"norm"};
    expect_error(ErrorCode::usage, "may be encoded", [&] { (void)plan_encode(options); });
    options.exclude = {};
    options.types = {{"norm", "COPY"}};
    (void)plan_encode(options);
    options.types = {{"psychic", "COPY"}};
    expect_error(ErrorCode::usage, "no tensor", [&] { (void)plan_encode(options); });
}

TEST(EncodePlan, OutputsAreCheckedBeforeAnyWork) {
    const EncodeFixture fixture;
    const auto with = [&](const std::string& out, const std::string& telemetry) {
        EncodeOptions options = fixture.options(out);
        options.telemetry = telemetry.empty() ? std::filesystem::path() : fixture.folder() / telemetry;
        return [options] { (void)plan_encode(options); };
    };
    expect_error(ErrorCode::missing, "no/such", with("no/such/out.knot", ""));
    expect_error(ErrorCode::usage, "two outputs", with("out.knot", "out.knot"));
    std::filesystem::create_directory(fixture.folder() / "a");
    expect_error(ErrorCode::usage, "two outputs", with("out.knot", "a/../out.knot"));
    expect_error(ErrorCode::usage, "two outputs", with("out.knot", "out.knot.part"));
    expect_error(ErrorCode::usage, "two outputs", with("out.knot", "out.knot.part.journal"));
}

TEST(EncodePlan, UsageErrors) {
    const EncodeFixture fixture;
    const auto with = [&](const std::function<void(EncodeOptions&)>& change) {
        EncodeOptions options = fixture.options();
        change(options);
        return [options] { (void)plan_encode(options); };
    };
    expect_error(ErrorCode::usage, "regular expression", with([](auto& o) { o.include = {"("}; }));
    // Linear time, whatever the pattern: with back-tracking this one would not end.
    expect_error(ErrorCode::usage, "no matrix", with([](auto& o) { o.include = {"((([a-z0-9._]+)+)+)+#"}; }));
    expect_error(ErrorCode::usage, "no tensor is left", with([](auto& o) { o.exclude = {"."}; }));
    expect_error(ErrorCode::usage, "encoder", with([](auto& o) { o.encoder = "v9"; }));
    expect_error(ErrorCode::usage, "decoder", with([](auto& o) { o.decoder = "guess"; }));
    expect_error(ErrorCode::usage, "0..1", with([](auto& o) { o.hi_frac = 2; }));
    expect_error(ErrorCode::missing, "absent.gguf", with([](auto& o) { o.model = "absent.gguf"; }));
    expect_error(ErrorCode::missing, "absent.imatrix", with([](auto& o) { o.imatrix = "absent.imatrix"; }));
    expect_error(ErrorCode::output_exists, "already exists", with([](auto& o) { o.out = o.model; }));
}

TEST(EncodePlan, ImportanceIsCheckedBeforeAnyWork) {
    const std::string name = "blk.1.ffn_up.weight";
    const auto refused = [&](ErrorCode code, const std::string& part,
                             const std::function<void(format::Imatrix&)>& damage) {
        EncodeFixture fixture;
        damage(fixture.imatrix());
        fixture.write_imatrix("damaged.gguf");
        expect_error(code, name, [&] { (void)plan_encode(fixture.options()); });
        expect_error(code, part, [&] { (void)plan_encode(fixture.options()); });
    };
    refused(ErrorCode::missing, "no entry", [&](auto& i) { i.entries.erase(name); });
    refused(ErrorCode::bad_input, "zero", [&](auto& i) {
        auto& sums = i.entries[name].sum_of_squares;
        std::fill(sums.begin(), sums.end(), 0.0F);
    });
    refused(ErrorCode::bad_input, "zero", [&](auto& i) { i.entries[name].count = 0; });
    refused(ErrorCode::bad_input, "another model",
            [&](auto& i) { i.entries[name].sum_of_squares.pop_back(); });
}

TEST(EncodePlan, BaseMustBeTheSameModel) {
    const EncodeFixture fixture;
    const auto refused_base = [&](const kaiju::test::TinyModelOptions& shape, ErrorCode code,
                                  const std::string& part) {
        const kaiju::test::TemporaryFolder folder;
        EncodeOptions options = fixture.options();
        options.base = kaiju::test::write_tiny_model(folder / "base.gguf", shape);
        expect_error(code, part, [&] { (void)plan_encode(options); });
    };
    refused_base({.ffn = 216}, ErrorCode::bad_input, "not the same model");
    refused_base({.layers = 1}, ErrorCode::missing, "not the same model");
    refused_base({.layers = 3}, ErrorCode::missing, "not the same model");
    refused_base({.kv_heads = 4}, ErrorCode::bad_input, "not the same model");
    refused_base({.extra_tensor = "blk.0.extra.weight"}, ErrorCode::missing, "blk.0.extra.weight");

    EncodeOptions options = fixture.options();
    options.base = kaiju::test::write_tiny_model(fixture.folder() / "base.gguf", {.type = GGML_TYPE_Q8_0});
    EXPECT_EQ(entry_of(plan_encode(options), "blk.0.attn_v.weight").info.type, "Q8_0")
        << "copied from the base";
}

TEST(EncodePlan, OutOfScopeArchitecturesAreRefused) {
    EncodeFixture fixture({.architecture = "mamba"});
    expect_error(ErrorCode::bad_input, "state-space", [&] { (void)plan_encode(fixture.options()); });
}

}  // namespace
}  // namespace kaiju::codec
