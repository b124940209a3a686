#include "format/gguf_file.h"

#include <gguf.h>

#include "bytes.h"
#include "format/gguf_scan.h"
#include "format/gguf_writer.h"
#include "format/key_values.h"
#include "format/stock_types.h"
#include "support/test_files.h"
#include "support/tiny_model.h"

namespace kaiju::format {
namespace {

using test::Blob;
using test::bytes_of;
using test::expect_error;

constexpr uint32_t kU32 = 4;
constexpr uint32_t kString = 8;
constexpr uint32_t kArray = 9;

/// Head of a GGUF v3 file.
Blob head(uint64_t tensors, uint64_t key_values) {
    return Blob().text("GGUF").put(uint32_t{3}).put(tensors).put(key_values);
}

/// One entry of the tensor table.
void put_tensor(Blob& blob, std::string_view name, const std::vector<uint64_t>& extents, uint32_t type,
                uint64_t offset) {
    blob.string(name).put(static_cast<uint32_t>(extents.size()));
    for (const uint64_t extent : extents) {
        blob.put(extent);
    }
    blob.put(type).put(offset);
}

void expect_refused(const std::string& file, const std::vector<std::string>& parts) {
    expect_error(ErrorCode::bad_input, parts, [&] { static_cast<void>(scan_gguf(bytes_of(file))); });
}

TEST(Gguf, reads_what_ggml_reads) {
    const test::TemporaryFolder folder;
    test::TinyModelOptions options;
    options.type = GGML_TYPE_Q8_0;
    const auto path = test::write_tiny_model(folder / "tiny.gguf", options);
    const GgufFile model(path);
    ggml_context* data = nullptr;
    gguf_context* reference = gguf_init_from_file(path.c_str(), {/*no_alloc=*/false, /*ctx=*/&data});
    ASSERT_NE(reference, nullptr);
    ASSERT_EQ(model.tensors().size(), static_cast<size_t>(gguf_get_n_tensors(reference)));
    for (size_t i = 0; i < model.tensors().size(); ++i) {
        const TensorInfo& info = model.tensors()[i];
        const ggml_tensor* tensor = ggml_get_tensor(data, info.name.c_str());
        ASSERT_NE(tensor, nullptr) << info.name;
        EXPECT_EQ(info.type, find_stock_type(static_cast<uint32_t>(tensor->type))->name);
        EXPECT_EQ(info.cols(), static_cast<uint64_t>(tensor->ne[0]));
        EXPECT_EQ(info.rows(), static_cast<uint64_t>(ggml_nrows(tensor)));
        ASSERT_EQ(model.payload(i).size(), ggml_nbytes(tensor));
        EXPECT_EQ(std::memcmp(model.payload(i).data(), tensor->data, ggml_nbytes(tensor)), 0) << info.name;
    }
    const KeyValues key_values(model.key_values());
    EXPECT_EQ(key_values.architecture(), "llama");
    EXPECT_EQ(key_values.get_u32(key_values.arch_key("block_count")), options.layers);
    EXPECT_EQ(key_values.array_size("tokenizer.ggml.tokens"), test::tiny_vocabulary_size());
    EXPECT_EQ(key_values.all().size(), static_cast<size_t>(gguf_get_n_kv(reference)));
    gguf_free(reference);
    ggml_free(data);
}

TEST(Gguf, key_values_are_a_file_that_ggml_reads) {
    const test::TemporaryFolder folder;
    const GgufFile model(test::write_tiny_model(folder / "tiny.gguf"));
    gguf_context* bare =
        gguf_init_from_buffer(model.key_values().data(), model.key_values().size(), {true, nullptr});
    ASSERT_NE(bare, nullptr);
    EXPECT_EQ(gguf_get_n_tensors(bare), 0);
    EXPECT_GE(gguf_find_key(bare, "tokenizer.ggml.tokens"), 0);
    gguf_free(bare);
}

TEST(Gguf, split_models_are_read_as_one) {
    const test::TemporaryFolder folder;
    test::TinyModelOptions options;
    const GgufFile whole(test::write_tiny_model(folder / "whole.gguf", options));
    options.parts = 3;
    const auto first = test::write_tiny_model(folder / "split.gguf", options);
    const GgufFile split(first);
    ASSERT_EQ(split.tensors().size(), whole.tensors().size());
    for (size_t i = 0; i < whole.tensors().size(); ++i) {
        const std::optional<size_t> j = split.find(whole.tensors()[i].name);
        ASSERT_TRUE(j.has_value());
        EXPECT_EQ(as_text(split.payload(*j)), as_text(whole.payload(i)));
    }
    EXPECT_EQ(split.files().size(), 3U);
    EXPECT_EQ(KeyValues(split.key_values()).find_i64("split.count"), std::nullopt);
    EXPECT_EQ(as_text(split.key_values()), as_text(whole.key_values()));

    const std::filesystem::path second = split.files()[1];
    expect_error(ErrorCode::bad_input, {"part 2 of 3", "name its first part"}, [&] { GgufFile{second}; });
    const std::filesystem::path renamed = folder / "other.gguf";
    std::filesystem::copy_file(first, renamed);
    expect_error(ErrorCode::bad_input, {"other.gguf", "-00001-of-00003.gguf"}, [&] { GgufFile{renamed}; });
    std::filesystem::resize_file(second, std::filesystem::file_size(second) - 1000);
    expect_error(ErrorCode::bad_input, {"00002-of-00003", "truncated"}, [&] { GgufFile{first}; });
    std::filesystem::remove(second);
    expect_error(ErrorCode::missing, {"00002-of-00003"}, [&] { GgufFile{first}; });
}

TEST(Gguf, every_truncation_says_truncated) {
    const test::TemporaryFolder folder;
    const std::string whole = test::slurp(test::write_tiny_model(folder / "tiny.gguf"));
    const GgufScan scan = scan_gguf(bytes_of(whole));
    const std::string path = folder / "cut.gguf";
    for (const uint64_t length : {scan.length - 1, scan.data_offset + 1, scan.data_offset}) {
        test::spill(path, whole.substr(0, length));
        expect_error(ErrorCode::bad_input,
                     {"cut.gguf", "truncated: " + std::to_string(scan.length) + " bytes expected, " +
                                      std::to_string(length) + " there"},
                     [&] { GgufFile{path}; });
    }
    uint64_t header_end = scan.data_offset;
    while (whole[header_end - 1] == '\0') {
        --header_end;  // padding, and the zeros of the last offset
    }
    for (uint64_t length = 4; length < header_end - 16; length += 7) {
        const std::string cut = whole.substr(0, length);
        expect_refused(cut, {"truncated"});
    }
}

TEST(Gguf, hostile_headers_are_refused_with_the_reason) {
    expect_refused("", {"not a GGUF"});
    expect_refused("GGUX", {"not a GGUF"});
    expect_refused(Blob().text("GGUF").put(uint32_t{1}).str(), {"version 1"});
    expect_refused(Blob().text("GGUF").put(uint32_t{4}).str(), {"version 4"});
    expect_refused(Blob().text("GGUF").put(uint32_t{0x03000000}).str(), {"big-endian"});
    expect_refused(head(uint64_t{1} << 60, 0).str(), {"do not fit the 0 bytes"});
    expect_refused(head(0, ~uint64_t{0}).str(), {"do not fit the 0 bytes"});

    const auto with_key = [](const auto& fill) {
        Blob blob = head(0, 1);
        fill(blob);
        return blob.pad(256).str();
    };
    expect_refused(with_key([](Blob& b) { b.string("").put(kU32).put(uint32_t{1}); }), {"no valid name"});
    // ggml's copying function aborts the process on this one: as a C string the key is empty.
    expect_refused(with_key([](Blob& b) { b.string(std::string("\0a", 2)).put(kU32).put(uint32_t{1}); }),
                   {"no valid name: '?a'"});
    expect_refused(with_key([](Blob& b) { b.string("k").put(uint32_t{13}); }), {"key 'k'", "number 13"});
    expect_refused(with_key([](Blob& b) { b.string("k").put(kString).put(uint64_t{1} << 40); }),
                   {"key 'k'", "1099511627776 bytes"});
    expect_refused(with_key([](Blob& b) { b.string("k").put(kString).put(uint64_t{1} << 20); }),
                   {"truncated", "key 'k'"});
    expect_refused(with_key([](Blob& b) { b.string("k").put(kArray).put(kU32).put(~uint64_t{0}); }),
                   {"key 'k'", "elements"});
    expect_refused(with_key([](Blob& b) { b.string("k").put(kArray).put(kU32).put(uint64_t{1} << 29); }),
                   {"truncated", "key 'k'"});
    expect_refused(with_key([](Blob& b) { b.string("k").put(kArray).put(kArray).put(uint64_t{1}); }),
                   {"arrays of arrays"});
    for (const uint32_t alignment : {0U, 3U, 48U}) {
        expect_refused(with_key([&](Blob& b) { b.string("general.alignment").put(kU32).put(alignment); }),
                       {"general.alignment"});
    }
    expect_refused(with_key([](Blob& b) { b.string("general.alignment").put(kString).string("x"); }),
                   {"general.alignment"});
    Blob twice = head(0, 2);
    twice.string("k").put(kU32).put(uint32_t{1}).string("k").put(kU32).put(uint32_t{2});
    expect_refused(twice.str(), {"key 'k' occurs twice"});
}

TEST(Gguf, hostile_tensor_tables_are_refused_with_the_reason) {
    const auto with_tensor = [](std::string_view name, const std::vector<uint64_t>& extents, uint32_t type,
                                uint64_t offset) {
        Blob blob = head(1, 0);
        put_tensor(blob, name, extents, type, offset);
        return blob.pad(256).str();
    };
    expect_refused(with_tensor(std::string(64, 'x'), {4}, 0, 0), {"1 to 63"});
    expect_refused(with_tensor("a\nb", {4}, 0, 0), {"'a?b'"});
    expect_refused(with_tensor("a", {}, 0, 0), {"tensor a: 0 dimensions"});
    expect_refused(with_tensor("a", {1, 1, 1, 1, 1}, 0, 0), {"5 dimensions"});
    expect_refused(with_tensor("a", {0}, 0, 0), {"dimension 0 is 0"});
    expect_refused(with_tensor("a", {4, ~uint64_t{0}}, 0, 0), {"dimension 1 is"});
    expect_refused(with_tensor("a", {uint64_t{1} << 32, uint64_t{1} << 31}, 0, 0), {"overflow"});
    expect_refused(with_tensor("a", {uint64_t{1} << 62, 2, 2}, 0, 0), {"overflow"});
    expect_refused(with_tensor("a", {4}, 4, 0), {"type number 4"});
    expect_refused(with_tensor("a", {4}, 1000, 0), {"type number 1000"});
    expect_refused(with_tensor("a", {100}, GGML_TYPE_Q4_K, 0), {"rows of 100 weights", "Q4_K"});
    expect_refused(with_tensor("a", {4}, 0, 32), {"tensor a: offset 32 where 0 is expected"});
    Blob twice = head(2, 0);
    put_tensor(twice, "a", {4}, 0, 0);
    put_tensor(twice, "a", {4}, 0, 32);
    expect_refused(twice.str(), {"tensor a occurs twice"});
}

TEST(Gguf, flipped_bits_in_the_header_never_do_harm) {
    const test::TemporaryFolder folder;
    Blob small = head(2, 2);
    small.string("general.architecture").put(kString).string("llama");
    small.string("list").put(kArray).put(kString).put(uint64_t{2}).string("one").string("two");
    put_tensor(small, "a", {4, 2}, 0, 0);
    put_tensor(small, "b", {32}, GGML_TYPE_Q8_0, 32);
    small.pad(32).text(std::string(32 + 34, 'x'));
    const std::string whole = small.str();
    test::spill(folder / "whole.gguf", whole);
    ASSERT_EQ(GgufFile(folder / "whole.gguf").tensors().size(), 2U);
    size_t accepted = 0;
    for (size_t at = 0; at < whole.size() - 66; ++at) {
        for (int bit = 0; bit < 8; ++bit) {
            std::string file = whole;
            file[at] = static_cast<char>(file[at] ^ (1 << bit));
            try {
                const GgufScan scan = scan_gguf(bytes_of(file));
                const KeyValues key_values(bytes_of(file));
                static_cast<void>(key_values.find_strings("list"));
                ++accepted;
                EXPECT_LE(scan.tensors.size(), 2U);
            } catch (const Error& error) {
                EXPECT_STRNE(error.what(), "");
            }
        }
    }
    EXPECT_GT(accepted, 0U);  // flips inside names and texts make other valid files
}

TEST(GgufWriter, makes_again_what_was_read) {
    const test::TemporaryFolder folder;
    const auto path = test::write_tiny_model(folder / "tiny.gguf");
    const GgufFile model(path);
    KeyValueWriter key_values;
    key_values.add_all(model.key_values());
    GgufWriter writer(folder / "again.gguf", key_values, model.tensors());
    for (size_t i = model.tensors().size(); i-- > 0;) {
        writer.write(i, 0, model.payload(i));
    }
    writer.commit();
    EXPECT_EQ(test::slurp(folder / "again.gguf"), test::slurp(path));
}

TEST(GgufWriter, keeps_trailing_dimensions_of_one_and_the_alignment) {
    const test::TemporaryFolder folder;
    KeyValueWriter key_values;
    key_values.add_u32("general.alignment", 128);
    const std::vector<TensorInfo> tensors = {{"a", "F32", {1, 3}, 12}, {"b", "F16", {1, 1, 5}, 10}};
    GgufWriter writer(folder / "x.gguf", key_values, tensors);
    writer.write(0, 0, bytes_of("aaaabbbbcccc"));
    writer.write(1, 0, bytes_of("0123456789"));
    writer.commit();
    const GgufFile read(folder / "x.gguf");
    EXPECT_EQ(read.tensors()[0].shape, (std::vector<uint64_t>{1, 3}));
    EXPECT_EQ(read.tensors()[1].shape, (std::vector<uint64_t>{1, 1, 5}));
    EXPECT_EQ(as_text(read.payload(0)), "aaaabbbbcccc");
    EXPECT_EQ(as_text(read.payload(1)), "0123456789");
    EXPECT_EQ(std::filesystem::file_size(folder / "x.gguf") % 128, 0U);
}

TEST(GgufWriter, refuses_what_a_gguf_cannot_hold) {
    const test::TemporaryFolder folder;
    const auto refuse = [&](const TensorInfo& info, const std::vector<std::string>& parts) {
        expect_error(ErrorCode::bad_input, parts,
                     [&] { GgufWriter(folder / "x.gguf", KeyValueWriter(), std::span(&info, 1)); });
    };
    refuse({"a", "KAIJU1", {1, 3}, 12}, {"tensor a", "KAIJU1 is not a GGML type"});
    refuse({"a", "F32", {1, 3}, 13}, {"13 bytes, type and shape imply 12"});
    refuse({std::string(64, 'n'), "F32", {3}, 12}, {"at most 63"});
    EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace kaiju::format
