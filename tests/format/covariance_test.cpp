#include "format/covariance.h"

#include <limits>

#include "bytes.h"
#include "support/test_files.h"

namespace kaiju::format {
namespace {

using test::bytes_of;
using test::expect_error;

constexpr std::string_view kMetadata =
    R"({"calibration":{"window_hashes":[1,18446744073709551615],"source":"wiki"},"model_id":"tiny"})";

/// Two taps: 2 columns (1 0.5; 0.5 4) and 1 column (9).
std::filesystem::path write_small(const std::filesystem::path& path, float off_diagonal = 0.5F) {
    CovarianceWriter writer(path, std::string(kMetadata),
                            {{.tap = "blk.0.attn_in", .dim = 2, .samples = 10},
                             {.tap = "blk.0.ffn_down_in", .dim = 1, .samples = 11}});
    writer.write(1, std::vector<float>{9});  // any order
    writer.write(0, std::vector<float>{1, off_diagonal, 4});
    writer.commit();
    return path;
}

void expect_refused(const std::string& file, const std::vector<std::string>& parts) {
    expect_error(ErrorCode::bad_input, parts, [&] { static_cast<void>(parse_covariances(bytes_of(file))); });
}

TEST(Covariance, what_is_written_is_read_back) {
    const test::TemporaryFolder folder;
    const CovarianceFile file(write_small(folder / "x.full"));
    EXPECT_EQ(file.model_id(), "tiny");
    ASSERT_TRUE(file.calibration());
    EXPECT_EQ(file.calibration()->source, "wiki");
    EXPECT_EQ(file.calibration()->window_hashes, (std::vector<uint64_t>{1, 18446744073709551615U}));
    ASSERT_EQ(file.entries().size(), 2U);
    const CovarianceEntry* entry = file.find("blk.0.attn_in");
    ASSERT_NE(entry, nullptr);
    EXPECT_EQ(entry->samples, 10U);
    std::vector<double> dense(4);
    file.fill(*entry, std::span(dense));
    EXPECT_EQ(dense, (std::vector<double>{1, 0.5, 0.5, 4}));
    std::vector<float> narrow(4);
    file.fill(*entry, std::span(narrow));
    EXPECT_EQ(narrow, (std::vector<float>{1, 0.5F, 0.5F, 4}));
    EXPECT_EQ(file.diagonal(*entry), (std::vector<float>{1, 4}));
    file.release(*entry);
    EXPECT_EQ(file.diagonal(*entry), (std::vector<float>{1, 4}));
    EXPECT_EQ(file.find("blk.1.attn_in"), nullptr);
    expect_error(ErrorCode::output_exists, {"x.full"}, [&] { write_small(folder / "x.full"); });
}

TEST(Covariance, the_layout_is_the_page_s) {
    const test::TemporaryFolder folder;
    const std::string file = test::slurp(write_small(folder / "x.full"));
    EXPECT_EQ(file.substr(0, 4), "KCV1");
    EXPECT_EQ(load<uint32_t>(file.data() + 4), 1U);
    EXPECT_EQ(load<uint64_t>(file.data() + 8), file.size());
    EXPECT_EQ(load<uint32_t>(file.data() + 24), kMetadata.size());
    EXPECT_EQ(load<uint32_t>(file.data() + 28), 2U);
    EXPECT_EQ(file.substr(32, kMetadata.size()), kMetadata);
    const size_t table_end = 32 + kMetadata.size() + (2 + 13 + 20) + (2 + 17 + 20);
    EXPECT_EQ(load<uint64_t>(file.data() + 16), xxh3(bytes_of(file).subspan(24, table_end - 24)));
    const size_t first = (table_end + 63) / 64 * 64;
    EXPECT_EQ(load<float>(file.data() + first + 8), 4);
    EXPECT_EQ(load<float>(file.data() + first + 64), 9);
    EXPECT_EQ(file.size(), first + 64 + 4);
}

TEST(Covariance, every_shorter_file_and_every_changed_byte_of_the_head_is_refused) {
    const test::TemporaryFolder folder;
    const std::string whole = test::slurp(write_small(folder / "x.full"));
    for (size_t length = 0; length < whole.size(); ++length) {
        expect_refused(whole.substr(0, length), {"truncated"});
    }
    expect_refused(whole + '\0', {"left over"});
    const size_t table_end = 32 + kMetadata.size() + (2 + 13 + 20) + (2 + 17 + 20);
    for (size_t at = 0; at < table_end; ++at) {
        std::string changed = whole;
        changed[at] = static_cast<char>(changed[at] ^ 0x10);
        expect_refused(changed, {""});
    }
}

TEST(Covariance, damaged_matrices_are_refused_with_file_and_tap) {
    const test::TemporaryFolder folder;
    std::string bytes = test::slurp(write_small(folder / "x.full"));
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    test::spill(folder / "damaged.full", bytes);
    const CovarianceFile file(folder / "damaged.full");
    std::vector<double> one(1);
    expect_error(ErrorCode::bad_input, {"damaged.full: covariance of blk.0.ffn_down_in", "checksum"},
                 [&] { file.fill(file.entries()[1], std::span(one)); });
}

TEST(Covariance, values_that_no_covariance_has_are_refused) {
    const test::TemporaryFolder folder;
    std::vector<double> dense(4);
    const auto refused = [&](const std::string& name, float value, const std::vector<std::string>& parts) {
        const CovarianceFile file(write_small(folder / name, value));
        expect_error(ErrorCode::bad_input, parts, [&] { file.fill(file.entries()[0], std::span(dense)); });
    };
    refused("nan", std::numeric_limits<float>::quiet_NaN(), {"blk.0.attn_in: columns 1 and 0: nan"});
    refused("inf", std::numeric_limits<float>::infinity(), {"columns 1 and 0: inf"});
    refused("large", -2.01F, {"columns 1 and 0: -2.01", "mean squares of 4 and 1"});
    CovarianceWriter writer(folder / "negative", "{}", {{.tap = "t", .dim = 1, .samples = 1}});
    writer.write(0, std::vector<float>{-1});
    writer.commit();
    const CovarianceFile file(folder / "negative");
    EXPECT_EQ(file.model_id(), "");
    EXPECT_EQ(file.calibration(), std::nullopt);
    expect_error(ErrorCode::bad_input, {"covariance of t: column 0: a mean square of -1"},
                 [&] { static_cast<void>(file.diagonal(file.entries()[0])); });
}

TEST(Covariance, the_writer_refuses_what_the_reader_would) {
    const test::TemporaryFolder folder;
    const auto refused = [&](const std::string& metadata, const std::vector<CovarianceEntry>& entries,
                             const std::vector<std::string>& parts) {
        expect_error(ErrorCode::bad_input, parts, [&] { CovarianceWriter(folder / "x", metadata, entries); });
    };
    refused("[]", {}, {"metadata", "not a JSON object"});
    refused("{}", {{.tap = "t", .dim = 0, .samples = 1}}, {"tap t", "no columns"});
    refused("{}", {{.tap = "t", .dim = 1, .samples = 0}}, {"0 samples"});
    refused("{}", {{.tap = "t", .dim = 1, .samples = 1}, {.tap = "t", .dim = 1, .samples = 1}}, {"twice"});
    CovarianceWriter writer(folder / "x", "{}", {{.tap = "t", .dim = 1, .samples = 1}});
    expect_error(ErrorCode::internal, {"not written"}, [&] { writer.commit(); });
    expect_error(ErrorCode::internal, {"2 values"}, [&] { writer.write(0, std::vector<float>{1, 2}); });
}

}  // namespace
}  // namespace kaiju::format
