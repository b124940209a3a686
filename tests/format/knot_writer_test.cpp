#include "format/knot_writer.h"

#include <nlohmann/json.hpp>
#include <numeric>

#include "base/parallel.h"
#include "bytes.h"
#include "format/knot.h"
#include "support/test_files.h"

namespace kaiju::format {
namespace {

using nlohmann::json;
using test::bytes_of;
using test::expect_error;

std::vector<TensorInfo> some_tensors() {
    return {{"gguf_kv", "GGUF_KV", {24}, 24},
            {"a.weight", "F32", {3, 7}, 84},
            {"b.weight", "Q8_0", {2, 64}, 136},
            {"c.weight", "KAIJU1", {2, 99}, 301},
            {"d.weight", "F16", {64}, 128}};
}

std::string payload(size_t index, uint64_t length) {
    std::string bytes(length, '\0');
    std::iota(bytes.begin(), bytes.end(), static_cast<char>(index * 37 + 1));
    return bytes;
}

const json kMetadata = {{"kaiju", {{"encoder", "v1-legacy"}}}, {"general", {{"name", "tiny"}}}};

TEST(KnotWriter, what_is_written_is_read_back) {
    const test::TemporaryFolder folder;
    const std::vector<TensorInfo> tensors = some_tensors();
    KnotWriter writer(folder / "x.knot", tensors);
    for (size_t i = 0; i < tensors.size(); ++i) {
        writer.write_payload(i, bytes_of(payload(i, tensors[i].nbytes)));
    }
    EXPECT_FALSE(std::filesystem::exists(folder / "x.knot"));
    writer.finish(kMetadata);
    const KnotFile knot(folder / "x.knot");
    EXPECT_EQ(writer.file_length(), std::filesystem::file_size(folder / "x.knot"));
    ASSERT_EQ(knot.entries().size(), tensors.size());
    ASSERT_EQ(knot.tensors().size(), tensors.size() - 1);
    EXPECT_EQ(as_text(knot.key_values()), payload(0, 24));
    for (size_t i = 0; i < tensors.size(); ++i) {
        const KnotEntry& entry = knot.entries()[i];
        EXPECT_EQ(entry.info.name, tensors[i].name);
        EXPECT_EQ(entry.info.shape, tensors[i].shape);
        EXPECT_EQ(entry.offset % 64, 0U);
        EXPECT_EQ(as_text(knot.entry_payload(entry)), payload(i, tensors[i].nbytes));
        EXPECT_EQ(entry.xxh3, xxh3(knot.entry_payload(entry)));
    }
    EXPECT_EQ(json::parse(knot.metadata()), kMetadata);
}

TEST(KnotWriter, order_pieces_and_threads_do_not_change_a_byte) {
    const test::TemporaryFolder folder;
    const std::vector<TensorInfo> tensors = some_tensors();
    KnotWriter straight(folder / "straight.knot", tensors);
    for (size_t i = 0; i < tensors.size(); ++i) {
        straight.write_payload(i, bytes_of(payload(i, tensors[i].nbytes)));
    }
    straight.finish(kMetadata);

    KnotWriter pieces(folder / "pieces.knot", tensors);
    parallel_for(tensors.size(), 1, 4, [&](size_t begin, size_t end) {
        for (size_t i = begin; i < end; ++i) {
            const std::string whole = payload(i, tensors[i].nbytes);
            for (uint64_t rest = whole.size(); rest > 0;) {  // back to front
                const uint64_t at = rest > 10 ? rest - 10 : 0;
                pieces.write_part(i, at, bytes_of(whole).subspan(at, rest - at));
                rest = at;
            }
        }
    });
    pieces.finish(kMetadata);
    EXPECT_EQ(test::slurp(folder / "straight.knot"), test::slurp(folder / "pieces.knot"));
}

TEST(KnotWriter, an_interrupted_file_is_gone_on_with) {
    const test::TemporaryFolder folder;
    const std::vector<TensorInfo> tensors = some_tensors();
    {
        KnotWriter first(folder / "x.knot", tensors, OutputFile::OnAbandon::keep);
        first.write_payload(2, bytes_of(payload(2, tensors[2].nbytes)));
        first.write_payload(4, bytes_of(payload(4, tensors[4].nbytes)));
    }
    ASSERT_TRUE(std::filesystem::exists(folder / "x.knot.part"));
    ASSERT_FALSE(std::filesystem::exists(folder / "x.knot"));
    {
        // Bytes that nobody planned, in the padding and behind the end, must not survive.
        std::string part = test::slurp(folder / "x.knot.part");
        part[64 + 24] = 'x';
        test::spill(folder / "x.knot.part", part + std::string(1000, 'y'));
    }
    KnotWriter second(folder / "x.knot", tensors, OutputFile::OnAbandon::keep);
    for (const size_t i : {0, 1, 3}) {
        second.write_payload(i, bytes_of(payload(i, tensors[i].nbytes)));
    }
    second.finish(kMetadata);
    KnotWriter whole(folder / "whole.knot", tensors);
    for (size_t i = 0; i < tensors.size(); ++i) {
        whole.write_payload(i, bytes_of(payload(i, tensors[i].nbytes)));
    }
    whole.finish(kMetadata);
    EXPECT_EQ(test::slurp(folder / "x.knot"), test::slurp(folder / "whole.knot"));
    EXPECT_FALSE(std::filesystem::exists(folder / "x.knot.part"));
}

TEST(KnotWriter, an_abandoned_file_leaves_nothing) {
    const test::TemporaryFolder folder;
    { const KnotWriter writer(folder / "x.knot", some_tensors()); }
    EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(KnotWriter, nothing_is_overwritten) {
    const test::TemporaryFolder folder;
    test::spill(folder / "x.knot", "mine");
    expect_error(ErrorCode::output_exists, {"x.knot"},
                 [&] { KnotWriter(folder / "x.knot", some_tensors()); });
    EXPECT_EQ(test::slurp(folder / "x.knot"), "mine");
}

TEST(KnotWriter, wrong_lists_are_refused_before_a_file_is_made) {
    const auto refuse = [](const TensorInfo& info, const std::vector<std::string>& parts) {
        const std::vector<TensorInfo> list = {info};
        expect_error(ErrorCode::bad_input, parts, [&] { static_cast<void>(KnotWriter::plan(list)); });
    };
    refuse({"a b", "F32", {4}, 16}, {"without spaces"});
    refuse({"a", "F32", {4}, 17}, {"entry a", "17 bytes, type F32 and shape imply 16"});
    refuse({"a", "KAIJU1", {4}, 17}, {"1 dimensions, KAIJU1 tensors have 2"});
    refuse({"a", "F32", {0}, 0}, {"a dimension is 0"});
    const std::vector<TensorInfo> twice = {{"a", "F32", {4}, 16}, {"a", "F32", {4}, 16}};
    expect_error(ErrorCode::bad_input, {"entry a occurs twice"},
                 [&] { static_cast<void>(KnotWriter::plan(twice)); });
}

TEST(KnotWriter, payloads_of_another_length_are_a_fault_of_the_caller) {
    const test::TemporaryFolder folder;
    KnotWriter writer(folder / "x.knot", some_tensors());
    expect_error(ErrorCode::internal, {"a.weight", "83 bytes where 84"},
                 [&] { writer.write_payload(1, bytes_of(payload(1, 83))); });
    expect_error(ErrorCode::internal, {"a.weight"},
                 [&] { writer.write_part(1, 80, bytes_of(payload(1, 5))); });
}

TEST(KnotWriter, text_that_is_not_utf8_does_not_stop_the_metadata) {
    const test::TemporaryFolder folder;
    KnotWriter writer(folder / "x.knot", {{"a", "F32", {1}, 4}});
    writer.write_payload(0, bytes_of("abcd"));
    writer.finish({{"general", {{"name", "caf\xe9"}}}});
    EXPECT_EQ(json::parse(KnotFile(folder / "x.knot").metadata())["general"]["name"], "caf\xef\xbf\xbd");
}

}  // namespace
}  // namespace kaiju::format
