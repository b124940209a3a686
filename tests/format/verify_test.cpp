// Golden files, good and bad, through the whole check.
#include "codec/verify.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "bytes.h"
#include "codec/tensor_decoder.h"
#include "format/knot.h"
#include "format/knot_writer.h"
#include "support/test_files.h"

namespace kaiju::codec {
namespace {

using format::KnotFile;
using format::ModelFile;
using format::TensorInfo;
using test::expect_error;

VerifyReport verify_file(const std::filesystem::path& path, int threads = 2) {
    Monitor quiet;
    return verify(*ModelFile::open(path), threads, quiet);
}

TEST(Verify, the_golden_file_is_sound_and_has_the_expected_values) {
    const auto path = test::golden_dir() / "tiny.knot";
    const VerifyReport report = verify_file(path);
    EXPECT_EQ(report.tensors, 3U);
    EXPECT_EQ(report.types.at("KAIJU1").tensors, 2U);
    EXPECT_EQ(report.weights, 6U * 120 + 5 * 99 + 21);
    const auto expected = nlohmann::json::parse(test::slurp(test::golden_dir() / "tiny.expected.json"));
    const KnotFile knot(path);
    size_t compared = 0;
    for (const auto& [name, rows] : expected.items()) {
        const std::optional<size_t> index = knot.find(name);
        ASSERT_TRUE(index.has_value()) << name;
        const TensorInfo& info = knot.tensors()[*index];
        ASSERT_EQ(info.rows(), rows.size());
        std::vector<float> row(info.cols());
        for (size_t r = 0; r < rows.size(); ++r) {
            make_tensor_decoder(info, knot.payload(*index))->decode_rows(r, 1, row.data());
            ASSERT_EQ(row.size(), rows[r].size());
            for (size_t c = 0; c < row.size(); ++c) {
                EXPECT_EQ(row[c], rows[r][c].get<float>()) << name << ' ' << r << ' ' << c;
                ++compared;
            }
        }
    }
    EXPECT_GE(compared, 1215U);
}

TEST(Verify, every_bad_golden_file_is_refused_saying_what_and_where) {
    const std::map<std::string, std::vector<std::string>> wanted = {
        {"columns_do_not_add_up", {"tensor blk.0.ffn_up.weight", "add up"}},
        {"duplicate_name", {"entry blk.0.ffn_up.weight occurs twice"}},
        {"empty", {"truncated: 0 bytes"}},
        {"empty_payload", {"entry blk.0.ffn_up.weight", "empty"}},
        {"entries_overlap", {"blk.0.ffn_up.weight", "blk.0.ffn_down.weight", "overlap"}},
        {"flipped_payload_byte", {"tensor blk.0.ffn_up.weight", "checksum of the payload"}},
        {"huge_toc_length", {"table of contents", "outside the file"}},
        {"invalid_trit", {"tensor blk.0.ffn_up.weight", "row 0, block 0", "trit"}},
        {"late_bad_row", {"tensor blk.0.ffn_up.weight", "row 5"}},
        {"magic", {"neither a GGUF nor a knot"}},
        {"meta_not_json", {"metadata"}},
        {"mult_descending", {"tensor blk.0.ffn_up.weight", "multiplier 1"}},
        {"mult_inf", {"tensor blk.0.ffn_up.weight", "multiplier 0 is inf"}},
        {"nbytes_too_small", {"tensor blk.0.ffn_down.weight"}},
        {"offset_outside", {"entry blk.0.ffn_down.weight", "outside the file"}},
        {"offset_unaligned", {"entry blk.0.ffn_down.weight", "multiple of 64"}},
        {"payload_magic", {"tensor blk.0.ffn_up.weight", "magic"}},
        {"perm_duplicate", {"tensor blk.0.ffn_down.weight", "twice"}},
        {"perm_kind_2", {"tensor blk.0.ffn_up.weight", "perm_kind 2"}},
        {"perm_out_of_range", {"tensor blk.0.ffn_down.weight", "60000"}},
        {"rows_overflow", {"tensor blk.0.ffn_up.weight", "548 bytes"}},
        {"rows_zero", {"tensor blk.0.ffn_up.weight", "0 rows"}},
        {"scale_nan", {"tensor blk.0.ffn_up.weight", "row 0", "nan"}},
        {"scale_negative", {"tensor blk.0.ffn_up.weight", "row 0", "-0.01"}},
        {"shape_mismatch", {"tensor blk.0.ffn_up.weight", "shape"}},
        {"shape_negative", {"entry blk.0.ffn_down.weight", "non-negative integer"}},
        {"shape_three_dimensions", {"entry blk.0.ffn_down.weight", "3 dimensions"}},
        {"short_header", {"truncated", "40"}},
        {"side_band_not_ascending", {"tensor blk.0.ffn_up.weight", "ascending"}},
        {"trit_byte_6_too_large", {"tensor blk.0.ffn_up.weight", "trit"}},
        {"truncated_half", {"truncated: 1907 bytes expected, 953 there"}},
        {"truncated_tail", {"truncated: 1907 bytes expected, 1897 there"}},
        {"unknown_type", {"tensor output_norm.weight", "type NOSUCH"}},
        {"version", {"version 99"}},
    };
    size_t seen = 0;
    for (const auto& file : std::filesystem::directory_iterator(test::golden_dir() / "bad")) {
        if (file.path().extension() != ".knot") {
            continue;
        }
        SCOPED_TRACE(file.path().filename());
        const auto parts = wanted.find(file.path().stem());
        ASSERT_NE(parts, wanted.end()) << "a bad file without an expectation";
        std::vector<std::string> all = parts->second;
        all.push_back(file.path().filename());
        expect_error(ErrorCode::bad_input, all, [&] { verify_file(file.path()); });
        ++seen;
    }
    EXPECT_EQ(seen, wanted.size());
}

TEST(Verify, of_several_faults_the_first_tensor_is_named_for_any_number_of_threads) {
    const test::TemporaryFolder folder;
    std::vector<TensorInfo> tensors;
    tensors.reserve(40);
    for (int i = 0; i < 40; ++i) {
        tensors.push_back({fmt::format("t{}", i), "F32", {1, 2}, 8});
    }
    format::KnotWriter writer(folder / "x.knot", tensors);
    for (size_t i = 0; i < tensors.size(); ++i) {
        const float weights[2] = {1, i == 7 || i == 30 || i == 39 ? NAN : 2};
        writer.write_payload(i, std::as_bytes(std::span(weights)));
    }
    writer.finish(nlohmann::json::object());
    for (const int threads : {1, 2, 8}) {
        expect_error(ErrorCode::bad_input, {"tensor t7: row 0, column 1: the weight is not finite"},
                     [&] { verify_file(folder / "x.knot", threads); });
    }
}

TEST(Verify, key_values_must_be_a_gguf_without_tensors) {
    const test::TemporaryFolder folder;
    format::KnotWriter writer(folder / "x.knot", {{"gguf_kv", "GGUF_KV", {5}, 5}});
    writer.write_payload(0, test::bytes_of("hello"));
    writer.finish(nlohmann::json::object());
    expect_error(ErrorCode::bad_input, {"x.knot", "gguf_kv", "not a GGUF"},
                 [&] { verify_file(folder / "x.knot"); });
}

TEST(Verify, a_flip_of_any_payload_bit_is_noticed) {
    const test::TemporaryFolder folder;
    const std::string whole = test::slurp(test::golden_dir() / "tiny.knot");
    const KnotFile knot(test::golden_dir() / "tiny.knot");
    for (const format::KnotEntry& entry : knot.entries()) {
        for (uint64_t at = entry.offset; at < entry.offset + entry.info.nbytes; at += 13) {
            std::string file = whole;
            file[at] = static_cast<char>(file[at] ^ 0x10);
            test::spill(folder / "x.knot", file);
            expect_error(ErrorCode::bad_input, {entry.info.name, "checksum"},
                         [&] { verify_file(folder / "x.knot", 1); });
        }
    }
}

}  // namespace
}  // namespace kaiju::codec
