#include "format/imatrix.h"

#include <gguf.h>

#include <limits>

#include "bytes.h"
#include "format/gguf_writer.h"
#include "support/test_files.h"

namespace kaiju::format {
namespace {

using test::Blob;
using test::bytes_of;
using test::expect_error;

Imatrix small() {
    Imatrix imatrix;
    imatrix.entries["blk.0.attn_q.weight"] = {{1, 2, 3.5F}, 4};
    imatrix.entries["blk.0.attn_k.weight"] = {{8, 0, 2}, 2};
    imatrix.datasets = {"wiki.valid.raw"};
    imatrix.chunk_count = 3;
    imatrix.chunk_size = 512;
    KeyValueWriter extra;
    extra.add_strings("kaiju.text_hashes", std::vector<std::string>{"0011", "2233"});
    imatrix.extra = KeyValues(extra.file());
    return imatrix;
}

std::string legacy(const std::vector<float>& values, int32_t calls) {
    Blob blob;
    blob.put(int32_t{1}).put(int32_t{5}).text("a.w.x").put(calls).put(static_cast<int32_t>(values.size()));
    for (const float value : values) {
        blob.put(value);
    }
    return blob.str();
}

/// The GGUF form with these tensors, F32 unless said, all zeros.
std::string gguf(const std::vector<TensorInfo>& tensors, std::string_view type = "imatrix") {
    const test::TemporaryFolder folder;
    KeyValueWriter head;
    head.add_string("general.type", type);
    GgufWriter writer(folder / "x", head, tensors);
    writer.commit();
    return test::slurp(folder / "x");
}

void expect_refused(const std::string& file, const std::vector<std::string>& parts) {
    expect_error(ErrorCode::bad_input, parts, [&] { static_cast<void>(parse_imatrix(bytes_of(file))); });
}

TEST(Imatrix, what_is_written_is_read_back) {
    const test::TemporaryFolder folder;
    write_imatrix(folder / "i.gguf", small());
    const Imatrix read = read_imatrix(folder / "i.gguf");
    ASSERT_EQ(read.entries.size(), 2U);
    const ImatrixEntry* q = read.find("blk.0.attn_q.weight");
    ASSERT_NE(q, nullptr);
    EXPECT_EQ(q->count, 4);
    EXPECT_EQ(q->mean_squares(), (std::vector<float>{0.25F, 0.5F, 0.875F}));
    EXPECT_EQ(read.find("blk.0.attn_v.weight"), nullptr);
    EXPECT_EQ(read.datasets, std::vector<std::string>{"wiki.valid.raw"});
    EXPECT_EQ(read.chunk_count, 3U);
    EXPECT_EQ(read.chunk_size, 512U);
    EXPECT_EQ(read.extra.find_strings("kaiju.text_hashes"), (std::vector<std::string>{"0011", "2233"}));
    // And once more, byte for byte.
    write_imatrix(folder / "again.gguf", read);
    EXPECT_EQ(test::slurp(folder / "again.gguf"), test::slurp(folder / "i.gguf"));
    expect_error(ErrorCode::output_exists, {"i.gguf"}, [&] { write_imatrix(folder / "i.gguf", small()); });
}

TEST(Imatrix, the_gguf_form_has_the_names_and_shapes_of_llama_cpp) {
    const test::TemporaryFolder folder;
    write_imatrix(folder / "i.gguf", small());
    ggml_context* data = nullptr;
    gguf_context* file = gguf_init_from_file((folder / "i.gguf").c_str(), {false, &data});
    ASSERT_NE(file, nullptr);
    EXPECT_STREQ(gguf_get_val_str(file, gguf_find_key(file, "general.type")), "imatrix");
    EXPECT_EQ(gguf_get_arr_n(file, gguf_find_key(file, "imatrix.datasets")), 1U);
    EXPECT_EQ(gguf_get_val_u32(file, gguf_find_key(file, "imatrix.chunk_count")), 3U);
    EXPECT_EQ(gguf_get_val_u32(file, gguf_find_key(file, "imatrix.chunk_size")), 512U);
    const ggml_tensor* sums = ggml_get_tensor(data, "blk.0.attn_q.weight.in_sum2");
    const ggml_tensor* counts = ggml_get_tensor(data, "blk.0.attn_q.weight.counts");
    ASSERT_NE(sums, nullptr);
    ASSERT_NE(counts, nullptr);
    EXPECT_EQ(sums->ne[0], 3);
    EXPECT_EQ(ggml_nelements(sums), 3);
    EXPECT_EQ(ggml_nelements(counts), 1);
    EXPECT_EQ(static_cast<const float*>(sums->data)[2], 3.5F);
    EXPECT_EQ(static_cast<const float*>(counts->data)[0], 4.0F);
    gguf_free(file);
    ggml_free(data);
}

TEST(Imatrix, the_legacy_form_is_read) {
    // llama.cpp writes mean x calls, and reads value / calls.
    const std::string old = legacy({2, 4}, 2);
    const Imatrix oldest = parse_imatrix(bytes_of(old));
    EXPECT_EQ(oldest.find("a.w.x")->mean_squares(), (std::vector<float>{1, 2}));
    EXPECT_TRUE(oldest.datasets.empty());
    const std::string newer = Blob().text(old).put(int32_t{2}).put(int32_t{4}).text("wiki").str();
    const Imatrix imatrix = parse_imatrix(bytes_of(newer));
    EXPECT_EQ(imatrix.datasets, std::vector<std::string>{"wiki"});
    EXPECT_EQ(imatrix.chunk_count, 2U);
    EXPECT_EQ(imatrix.chunk_size, 0U);
    for (size_t length = 0; length < newer.size(); ++length) {
        if (length != old.size()) {
            expect_refused(newer.substr(0, length), {length == 0 ? "empty" : "trunc"});
        }
    }
    expect_refused(newer + "x", {"1 bytes are left over"});
}

TEST(Imatrix, a_tensor_that_never_ran_has_no_importance) {
    EXPECT_EQ(ImatrixEntry({{0, 0}, 0}).mean_squares(), (std::vector<float>{0, 0}));
}

TEST(Imatrix, values_that_mean_nothing_are_refused_with_the_tensor) {
    expect_refused(legacy({1, std::numeric_limits<float>::quiet_NaN()}, 1),
                   {"importance of a.w.x", "column 1", "nan"});
    expect_refused(legacy({std::numeric_limits<float>::infinity(), 1}, 1), {"column 0", "inf"});
    expect_refused(legacy({1, -1}, 1), {"column 1", "-1"});
    expect_refused(legacy({1, 1}, -1), {"importance of a.w.x", "the number of calls is -1"});
    expect_refused(legacy({}, 1), {"the number of columns is 0"});
    Blob twice;
    twice.put(int32_t{2});
    for (int i = 0; i < 2; ++i) {
        twice.put(int32_t{1}).text("a").put(int32_t{1}).put(int32_t{1}).put(1.0F);
    }
    expect_refused(twice.str(), {"importance of a: occurs twice"});
    expect_refused(Blob().put(int32_t{-1}).pad(64).str(), {"not an importance matrix", "-1"});
    expect_refused(Blob().put(int32_t{0x7fffffff}).pad(64).str(), {"not an importance matrix", "do not fit"});
    expect_refused("a text file, not an importance matrix", {"not an importance matrix"});
}

TEST(Imatrix, gguf_files_of_another_kind_are_refused) {
    const TensorInfo sums{"a.in_sum2", "F32", {3}, 12};
    const TensorInfo count{"a.counts", "F32", {1}, 4};
    EXPECT_EQ(parse_imatrix(bytes_of(gguf({sums, count}))).entries.size(), 1U);
    expect_refused(gguf({sums, count}, "model"), {"general.type 'model'"});
    expect_refused(gguf({}), {"without importance entries"});
    expect_refused(gguf({sums}), {"importance of a", "without a count"});
    expect_refused(gguf({count}), {"importance of a", "count without sums"});
    expect_refused(gguf({{"a.in_sum2", "F16", {3}, 6}, count}), {"a.in_sum2", "type F16, not F32"});
    expect_refused(gguf({{"a.in_sum2", "F32", {8, 3}, 96}, count}), {"a.in_sum2", "one per expert"});
    expect_refused(gguf({sums, {"a.counts", "F32", {8, 1}, 32}}), {"a.counts", "one per expert"});
    expect_refused(gguf({sums, {"a.counts", "F32", {8}, 32}}), {"a.counts", "one per expert"});
    // llama.cpp keeps a dimension of one matrix.
    EXPECT_EQ(parse_imatrix(bytes_of(gguf({{"a.in_sum2", "F32", {1, 3}, 12}, count}))).entries.size(), 1U);
    const std::string whole = gguf({sums, count});
    expect_refused(whole.substr(0, whole.size() - 29), {"truncated"});
}

TEST(Imatrix, names_that_gguf_cannot_hold_are_refused_on_writing) {
    const test::TemporaryFolder folder;
    Imatrix imatrix;
    imatrix.entries[std::string(56, 'n')] = {{1}, 1};
    expect_error(ErrorCode::bad_input, {"at most 55"}, [&] { write_imatrix(folder / "i.gguf", imatrix); });
}

}  // namespace
}  // namespace kaiju::format
