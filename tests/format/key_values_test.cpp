#include "format/key_values.h"

#include "bytes.h"
#include "format/gguf_writer.h"

namespace kaiju::format {
namespace {

using test::Blob;
using test::expect_error;

/// One key-value of every type.
std::string all_types() {
    Blob blob;
    blob.text("GGUF").put(uint32_t{3}).put(uint64_t{0}).put(uint64_t{16});
    const auto key = [&](std::string_view name, GgufType type) -> Blob& {
        return blob.string(name).put(static_cast<uint32_t>(type));
    };
    key("u8", GgufType::u8).put(uint8_t{200});
    key("i8", GgufType::i8).put(int8_t{-7});
    key("u16", GgufType::u16).put(uint16_t{60000});
    key("i16", GgufType::i16).put(int16_t{-300});
    key("u32", GgufType::u32).put(uint32_t{4000000000});
    key("i32", GgufType::i32).put(int32_t{-5});
    key("u64", GgufType::u64).put(uint64_t{1} << 40);
    key("huge", GgufType::u64).put(~uint64_t{0});
    key("i64", GgufType::i64).put(int64_t{-1} << 40);
    key("f32", GgufType::f32).put(0.5F);
    key("f64", GgufType::f64).put(0.25);
    key("true", GgufType::boolean).put(uint8_t{1});
    key("text", GgufType::string).string(std::string("a\0b", 3));
    key("texts", GgufType::array)
        .put(static_cast<uint32_t>(GgufType::string))
        .put(uint64_t{2})
        .string("x")
        .string("");
    key("ints", GgufType::array)
        .put(static_cast<uint32_t>(GgufType::i16))
        .put(uint64_t{2})
        .put(int16_t{1})
        .put(int16_t{-2});
    key("reals", GgufType::array).put(static_cast<uint32_t>(GgufType::f32)).put(uint64_t{1}).put(1.5F);
    return blob.str();
}

TEST(KeyValues, values_convert_where_they_fit) {
    const std::string file = all_types();
    const KeyValues values(test::bytes_of(file));
    EXPECT_EQ(values.find_i64("u8"), 200);
    EXPECT_EQ(values.find_i64("i8"), -7);
    EXPECT_EQ(values.find_i64("u16"), 60000);
    EXPECT_EQ(values.find_i64("i16"), -300);
    EXPECT_EQ(values.get_u32("u32"), 4000000000U);
    EXPECT_EQ(values.find_i64("i32"), -5);
    EXPECT_EQ(values.find_i64("u64"), int64_t{1} << 40);
    EXPECT_EQ(values.find_i64("i64"), int64_t{-1} << 40);
    EXPECT_EQ(values.get_f32("f32"), 0.5F);
    EXPECT_EQ(values.get_f32("f64"), 0.25F);
    EXPECT_EQ(values.find_bool("true"), true);
    EXPECT_EQ(values.get_string("text"), std::string("a\0b", 3));  // ggml would cut it
    EXPECT_EQ(values.find_strings("texts"), (std::vector<std::string>{"x", ""}));
    EXPECT_EQ(values.find_i64s("ints"), (std::vector<int64_t>{1, -2}));
    EXPECT_EQ(values.find_f32s("reals"), std::vector<float>{1.5F});
    EXPECT_EQ(values.array_size("texts"), 2U);
    EXPECT_EQ(values.array_size("u8"), std::nullopt);
    EXPECT_EQ(values.find_string("absent"), std::nullopt);
    EXPECT_EQ(values.find_strings("absent"), std::nullopt);
}

TEST(KeyValues, wrong_types_are_errors_and_not_defaults) {
    const std::string file = all_types();
    const KeyValues values(test::bytes_of(file));
    const auto refuse = [](const std::vector<std::string>& parts, auto&& body) {
        expect_error(ErrorCode::bad_input, parts, [&] { static_cast<void>(body()); });
    };
    refuse({"key 'text'", "an integer is wanted", "string"}, [&] { return values.find_i64("text"); });
    refuse({"key 'u8'", "a string is wanted", "u8"}, [&] { return values.find_string("u8"); });
    refuse({"key 'u8'", "a real number"}, [&] { return values.find_f32("u8"); });
    refuse({"key 'u8'", "a truth value"}, [&] { return values.find_bool("u8"); });
    refuse({"key 'ints'", "a single value", "array of i16"}, [&] { return values.find_i64("ints"); });
    refuse({"key 'u8'", "an array"}, [&] { return values.find_i64s("u8"); });
    refuse({"key 'ints'", "an array of strings"}, [&] { return values.find_strings("ints"); });
    refuse({"key 'texts'", "an integer"}, [&] { return values.find_i64s("texts"); });
    refuse({"key 'i8'", "outside"}, [&] { return values.find_u32("i8"); });
    refuse({"key 'u64'", "outside"}, [&] { return values.find_u32("u64"); });
    refuse({"key 'huge'", "overflows 63 bits"}, [&] { return values.find_i64("huge"); });
    expect_error(ErrorCode::missing, {"'general.architecture'"},
                 [&] { static_cast<void>(values.architecture()); });
}

TEST(KeyValues, records_are_copied_verbatim) {
    const std::string file = all_types();
    KeyValueWriter copy;
    copy.add_all(test::bytes_of(file));
    EXPECT_EQ(copy.count(), 16U);
    const std::vector<std::byte> bytes = copy.file();
    EXPECT_EQ(as_text(Bytes(bytes).first(file.size())), file);  // then padding
    EXPECT_EQ(bytes.size() % 32, 0U);
}

TEST(KeyValues, made_here_and_read_again) {
    KeyValueWriter writer;
    writer.add_string("general.architecture", "llama");
    writer.add_u32("llama.block_count", 7);
    writer.add_strings("imatrix.datasets", std::vector<std::string>{"a", "b"});
    const KeyValues values(writer.file());
    EXPECT_EQ(values.architecture(), "llama");
    EXPECT_EQ(values.get_u32(values.arch_key("block_count")), 7U);
    EXPECT_EQ(values.find_strings("imatrix.datasets"), (std::vector<std::string>{"a", "b"}));
    EXPECT_TRUE(KeyValues().all().empty());
}

}  // namespace
}  // namespace kaiju::format
