#include "format/sketch.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "bytes.h"
#include "format/stock_types.h"
#include "format/taps.h"
#include "support/test_files.h"

namespace kaiju::format {
namespace {

using test::Blob;
using test::bytes_of;
using test::expect_error;

/// dim 3, k 2: a sketch that nobody would refuse.
Sketch small(const std::string& tap = "blk.0.attn_in") {
    return {
        .tap = tap, .samples = 7, .diag = {2, 1, 0.5F}, .eigval = {2, 1}, .eigvec = {1, 0, 0, 0, 0.6F, 0.8F}};
}

std::string written(const std::vector<Sketch>& sketches) {
    const test::TemporaryFolder folder;
    SketchWriter writer(folder / "x.sket", "model", static_cast<uint32_t>(sketches.size()));
    for (const Sketch& sketch : sketches) {
        writer.append(sketch);
    }
    writer.commit();
    return test::slurp(folder / "x.sket");
}

/// The same bytes, typed by hand.
std::string by_hand(const Sketch& sketch) {
    Blob blob;
    blob.text("KSK1").put(uint32_t{1}).put(uint16_t{5}).text("model").put(uint32_t{1});
    blob.put(static_cast<uint16_t>(sketch.tap.size())).text(sketch.tap);
    blob.put(sketch.dim()).put(sketch.k()).put(sketch.samples);
    for (const auto* values : {&sketch.diag, &sketch.eigval, &sketch.eigvec}) {
        for (const float value : *values) {
            blob.put(value);
        }
    }
    return blob.str();
}

void expect_refused(const std::string& file, const std::vector<std::string>& parts) {
    expect_error(ErrorCode::bad_input, parts, [&] { static_cast<void>(parse_sketches(bytes_of(file))); });
}

TEST(Sketch, the_writer_writes_the_format_byte_for_byte) {
    EXPECT_EQ(written({small()}), by_hand(small()));
}

TEST(Sketch, the_golden_file_is_read_and_written_back) {
    const test::TemporaryFolder folder;
    const SketchFile file(test::golden_dir() / "tiny.sket");
    EXPECT_EQ(file.model_id(), "golden");
    ASSERT_EQ(file.entries().size(), 2U);
    const SketchEntry* entry = file.find("blk.0.attn_in");
    ASSERT_NE(entry, nullptr);
    EXPECT_EQ(entry->dim, 48U);
    EXPECT_EQ(entry->k, 8U);
    EXPECT_EQ(entry->samples, 1234U);
    EXPECT_EQ(file.find("blk.1.attn_in"), nullptr);
    SketchWriter writer(folder / "again.sket", file.model_id(), 2);
    for (const SketchEntry& one : file.entries()) {
        writer.append(one.load());
    }
    writer.commit();
    EXPECT_EQ(test::slurp(folder / "again.sket"), test::slurp(test::golden_dir() / "tiny.sket"));
}

/// e'Ŝe by the definition, in the order of docs/sket.md.
double quadratic_form(const Sketch& sketch, const std::vector<double>& e) {
    double low = 0;
    std::vector<double> rest(sketch.diag.begin(), sketch.diag.end());
    double mean = 0;
    for (const float square : sketch.diag) {
        mean += square / static_cast<double>(sketch.dim());
    }
    for (size_t j = 0; j < sketch.k(); ++j) {
        double product = 0;
        for (size_t i = 0; i < sketch.dim(); ++i) {
            const double u = sketch.eigvec[j * sketch.dim() + i];
            product += u * e[i];
            rest[i] -= sketch.eigval[j] * u * u;
        }
        low += sketch.eigval[j] * product * product;
    }
    for (size_t i = 0; i < sketch.dim(); ++i) {
        low += std::max(rest[i], kSketchFloor * mean) * e[i] * e[i];
    }
    return low;
}

TEST(Sketch, the_golden_file_means_what_its_generator_meant) {
    const SketchFile file(test::golden_dir() / "tiny.sket");
    const auto expected = nlohmann::json::parse(test::slurp(test::golden_dir() / "tiny.sket.expected.json"));
    ASSERT_EQ(expected.size(), file.entries().size());
    for (const SketchEntry& entry : file.entries()) {
        const auto& wanted = expected.at(entry.tap);
        const double form = quadratic_form(entry.load(), wanted.at("dw").get<std::vector<double>>());
        EXPECT_NEAR(form / wanted.at("quad_form").get<double>(), 1, 1e-6) << entry.tap;
    }
}

TEST(Sketch, the_golden_bad_files_are_refused_with_the_entry) {
    const auto refused = [](const std::string& name, const std::vector<std::string>& parts) {
        expect_error(ErrorCode::bad_input, parts,
                     [&] { static_cast<void>(SketchFile(test::golden_dir() / "bad" / (name + ".sket"))); });
    };
    refused("magic", {"magic.sket: not a sketch"});
    refused("diag_nan", {"entry 0 (blk.0.attn_in)", "mean square of nan"});
    refused("dim_overflow", {"entry 0 (blk.0.attn_in)"});
    refused("duplicate_tap", {"entry 1 (blk.0.attn_in): the tap occurs twice"});
    refused("eigenvalue_negative", {"entry 0 (blk.0.attn_in)", "eigenvalue"});
    refused("eigenvectors_not_orthonormal", {"entry 0 (blk.0.attn_in)", "eigenvector"});
    refused("trailing", {"1 bytes are left over"});
    refused("truncated", {"entry 1 (blk.0.ffn_down_in): truncated"});
}

TEST(Sketch, every_shorter_file_is_refused) {
    const std::string whole = written({small(), small("blk.0.ffn_in")});
    for (size_t length = 0; length < whole.size(); ++length) {
        expect_refused(whole.substr(0, length), {"truncated"});
    }
}

TEST(Sketch, numbers_that_mean_nothing_are_refused) {
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    constexpr float kInf = std::numeric_limits<float>::infinity();
    const auto with = [](const auto& change) {
        Sketch sketch = small();
        change(sketch);
        return by_hand(sketch);
    };
    expect_refused(with([](Sketch& s) { s.diag[1] = -1; }), {"column 1", "-1"});
    expect_refused(with([](Sketch& s) { s.diag[2] = kInf; }), {"column 2", "inf"});
    expect_refused(with([](Sketch& s) { s.eigval = {1, 2}; }), {"eigenvalue 1 (2) is larger"});
    expect_refused(with([](Sketch& s) { s.eigval[0] = kNan; }), {"eigenvalue 0 is nan"});
    expect_refused(with([](Sketch& s) { s.eigval[1] = -0.5F; }), {"eigenvalue 1 is -0.5"});
    expect_refused(with([](Sketch& s) { s.eigvec[5] = kNan; }), {"eigenvector 1: component 2 is nan"});
    expect_refused(with([](Sketch& s) { s.eigvec[0] = 1.01F; }), {"eigenvector 0 has length"});
    expect_refused(with([](Sketch& s) { s.eigvec = {1, 0, 0, 0.6F, 0.8F, 0}; }),
                   {"eigenvectors 0 and 1 are not orthogonal"});
    expect_refused(with([](Sketch& s) { s.samples = 0; }), {"0 samples"});
    expect_refused(with([](Sketch& s) { s.diag.clear(); }), {"no columns"});
    expect_refused(with([](Sketch& s) { s.diag = {1}; }), {"2 eigenpairs of 1 columns"});
    expect_refused(with([](Sketch& s) { s.tap = "blk.\xff"; }), {"UTF-8"});
    expect_refused(with([](Sketch& s) { s.tap.clear(); }), {"UTF-8"});
    // Within the format's tolerance.
    EXPECT_EQ(parse_sketches(bytes_of(with([](Sketch& s) { s.eigvec[0] = 1.0004F; }))).entries.size(), 1U);
    // No eigenpairs at all: a diagonal.
    EXPECT_EQ(parse_sketches(bytes_of(with([](Sketch& s) { s.eigval.clear(), s.eigvec.clear(); })))
                  .entries.at(0)
                  .load()
                  .k(),
              0U);
}

TEST(Sketch, heads_that_lie_are_refused_before_anything_is_allocated) {
    const auto head = [](uint32_t version, uint32_t entries) {
        return Blob().text("KSK1").put(version).put(uint16_t{0}).put(entries);
    };
    expect_refused(head(2, 0).str(), {"version 2"});
    expect_refused(head(1, std::numeric_limits<uint32_t>::max()).str(), {"4294967295 entries do not fit"});
    EXPECT_TRUE(parse_sketches(bytes_of(head(1, 0).str())).entries.empty());
    const auto huge =
        head(1, 1).put(uint16_t{1}).text("t").put(uint32_t{0xffffffff}).put(uint32_t{0xffffffff});
    expect_refused(Blob(huge).put(uint64_t{1}).put(uint64_t{0}).str(), {"entry 0 (t)", "overflows"});
}

TEST(Sketch, the_writer_refuses_what_the_reader_would) {
    const test::TemporaryFolder folder;
    SketchWriter writer(folder / "x.sket", "model", 2);
    writer.append(small());
    expect_error(ErrorCode::bad_input, {"tap blk.0.attn_in", "twice"}, [&] { writer.append(small()); });
    Sketch wrong = small("other");
    wrong.eigvec.pop_back();
    expect_error(ErrorCode::bad_input, {"tap other", "do not fit each other"}, [&] { writer.append(wrong); });
    expect_error(ErrorCode::internal, {"1 sketches written, 2 announced"}, [&] { writer.commit(); });
    expect_error(ErrorCode::bad_input, {"the model's id"},
                 [&] { SketchWriter(folder / "y.sket", std::string(65536, 'm'), 0); });
}

TEST(Taps, every_matrix_of_a_layer_has_one) {
    EXPECT_EQ(tap_of("blk.0.attn_q.weight"), "blk.0.attn_in");
    EXPECT_EQ(tap_of("blk.11.attn_k.weight"), "blk.11.attn_in");
    EXPECT_EQ(tap_of("blk.11.attn_v.weight"), "blk.11.attn_in");
    EXPECT_EQ(tap_of("blk.7.attn_output.weight"), "blk.7.attn_out_in");
    EXPECT_EQ(tap_of("blk.7.ffn_gate.weight"), "blk.7.ffn_in");
    EXPECT_EQ(tap_of("blk.7.ffn_up.weight"), "blk.7.ffn_in");
    EXPECT_EQ(tap_of("blk.7.ffn_down.weight"), "blk.7.ffn_down_in");
    for (const char* other : {"blk.0.attn_norm.weight", "blk.0.attn_q.bias", "output.bias",
                              "token_embd.weight", "blk..attn_q.weight", "blk.1attn_q.weight", "blk.0.weight",
                              "blk.0..weight", "blk.0", "blk.", "", "blk.0.ffn_down.weight.weight"}) {
        EXPECT_EQ(tap_of(other), std::nullopt) << other;
    }
}

TEST(Taps, the_head_has_one_whatever_serves_as_head) {
    EXPECT_EQ(tap_of("output.weight"), "output_in");
    EXPECT_EQ(tap_of("token_embd.weight", true), "output_in");
    EXPECT_EQ(tap_of("output.weight", true), std::nullopt);
}

TEST(Utf8, well_formed_or_not) {
    for (const char* good :
         {"", "plain", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x90\x89", "\xed\x9f\xbf", "\xf4\x8f\xbf\xbf"}) {
        EXPECT_TRUE(is_utf8(good)) << good;
    }
    for (const char* bad : {"\x80", "\xc3", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                            "\xf5\x80\x80\x80", "\xff", "\xe2\x82", "\xc3z"}) {
        EXPECT_FALSE(is_utf8(bad));
    }
}

}  // namespace
}  // namespace kaiju::format
