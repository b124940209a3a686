#include "format/knot.h"

#include <nlohmann/json.hpp>

#include "bytes.h"
#include "support/test_files.h"

namespace kaiju::format {
namespace {

using test::bytes_of;
using test::expect_error;
using test::make_knot;

constexpr const char* kChecksum = "0123456789abcdef";  // payload checksums are not looked at here

std::string entry(const std::string& fields) {
    return R"({"name": "a", "type": "F32", "shape": [4, 4], "offset": 64, "nbytes": 64, "xxh3": ")" +
           std::string(kChecksum) + "\"" + fields + "}";
}

void expect_refused(const std::string& toc, const std::vector<std::string>& parts,
                    const std::string& metadata = "{}") {
    const std::string file = make_knot(std::string(256, '\0'), toc, metadata);
    expect_error(ErrorCode::bad_input, parts, [&] { static_cast<void>(parse_knot(bytes_of(file))); });
}

TEST(Knot, reads_the_golden_file) {
    const KnotFile knot(test::golden_dir() / "tiny.knot");
    ASSERT_EQ(knot.tensors().size(), 3U);
    EXPECT_EQ(knot.tensors()[0].name, "blk.0.ffn_up.weight");
    EXPECT_EQ(knot.tensors()[0].type, "KAIJU1");
    EXPECT_EQ(knot.tensors()[0].shape, (std::vector<uint64_t>{6, 120}));
    EXPECT_EQ(knot.tensors()[1].nbytes, 616U);
    EXPECT_EQ(knot.tensors()[2].rows(), 3U);
    EXPECT_EQ(knot.tensors()[2].cols(), 7U);
    EXPECT_EQ(knot.find("output_norm.weight"), 2U);
    EXPECT_FALSE(knot.find("output_norm").has_value());
    EXPECT_TRUE(knot.is_knot());
    EXPECT_TRUE(knot.key_values().empty());
    for (const KnotEntry& each : knot.entries()) {
        EXPECT_EQ(xxh3(knot.entry_payload(each)), each.xxh3) << each.info.name;
    }
    // Unknown keys are tolerated, and kept.
    const auto metadata = nlohmann::json::parse(knot.metadata());
    EXPECT_EQ(metadata["kaiju"]["encoder"], "v3-gptq-leech");
    EXPECT_TRUE(metadata["kaiju"].contains("future_key"));
}

TEST(Knot, every_truncation_of_the_golden_file_is_refused) {
    const std::string whole = test::slurp(test::golden_dir() / "tiny.knot");
    for (size_t length = 0; length < whole.size(); ++length) {
        const std::string file = whole.substr(0, length);
        expect_error(ErrorCode::bad_input, {"truncated", std::to_string(length)},
                     [&] { static_cast<void>(parse_knot(bytes_of(file))); });
    }
}

TEST(Knot, trailing_bytes_are_refused) {
    const std::string file = test::slurp(test::golden_dir() / "tiny.knot") + "x";
    expect_error(ErrorCode::bad_input, {"1 bytes follow the end"},
                 [&] { static_cast<void>(parse_knot(bytes_of(file))); });
}

TEST(Knot, every_flipped_bit_of_header_table_and_metadata_is_noticed) {
    const std::string whole = test::slurp(test::golden_dir() / "tiny.knot");
    const KnotHeader header = KnotHeader::parse(bytes_of(whole), whole.size());
    for (size_t at = 0; at < whole.size(); ++at) {
        if (at >= KnotHeader::kBytes && at < header.toc_offset) {
            continue;  // payloads: verify_test.cpp
        }
        for (int bit = 0; bit < 8; ++bit) {
            std::string file = whole;
            file[at] = static_cast<char>(file[at] ^ (1 << bit));
            EXPECT_THROW(static_cast<void>(parse_knot(bytes_of(file))), Error)
                << "byte " << at << ", bit " << bit;
        }
    }
}

TEST(Knot, an_entry_that_is_right_is_read) {
    const std::string file = make_knot(std::string(64, '\0'), "[" + entry("") + "]");
    const KnotTable table = parse_knot(bytes_of(file));
    ASSERT_EQ(table.entries.size(), 1U);
    EXPECT_EQ(table.entries[0].xxh3, 0x0123456789abcdefU);
    EXPECT_EQ(table.metadata, "{}");
}

TEST(Knot, entries_that_are_wrong_are_refused_with_the_reason) {
    const auto with = [](std::string_view key, const std::string& value) {
        auto fields = nlohmann::ordered_json::parse(entry(""));
        fields[key] = nlohmann::ordered_json::parse(value);
        return "[" + fields.dump() + "]";
    };
    const auto without = [](std::string_view key) {
        auto fields = nlohmann::ordered_json::parse(entry(""));
        fields.erase(std::string(key));
        return "[" + fields.dump() + "]";
    };
    expect_refused(with("name", "\"\""), {"a name has 1 to 255"});
    expect_refused(with("name", "\"a b\""), {"entry 'a b'", "without spaces"});
    expect_refused(with("name", "\"a\\u001b[31m\""), {"entry 'a?[31m'"});
    expect_refused(with("name", "\"" + std::string(256, 'a') + "\""), {"1 to 255"});
    expect_refused(with("name", "7"), {"\"name\" is not a string"});
    expect_refused(with("shape", "[]"), {"0 dimensions"});
    expect_refused(with("shape", "[1,1,1,4,4]"), {"5 dimensions"});
    expect_refused(with("shape", "[4, 0]"), {"entry a", "a dimension is 0"});
    expect_refused(with("shape", "[4, -4]"), {"not a non-negative integer"});
    expect_refused(with("shape", "[4, 4.0]"), {"not a non-negative integer"});
    expect_refused(with("shape", "[4, 1e0]"), {"not a non-negative integer"});
    expect_refused(with("shape", "[4, \"4\"]"), {"not a non-negative integer"});
    expect_refused(with("shape", "[4, 99999999999999999999]"), {"not a non-negative integer"});
    expect_refused(with("shape", "[4294967296, 4294967296]"), {"overflows 64 bits"});
    expect_refused(with("shape", "[4294967295, 4294967295]"), {"overflows 63 bits"});
    expect_refused(with("shape", "16"), {"\"shape\" is not an array"});
    expect_refused(with("shape", "[4, 5]"), {"64 bytes, type F32 and shape imply 80"});
    expect_refused(with("type", "\"Q8_0\""), {"rows of 4 weights do not divide into the blocks of 32"});
    expect_refused(with("type", "\"\""), {"\"type\" is not a word"});
    expect_refused(with("type", "\"GGUF_KV\""), {"belongs to the entry named gguf_kv"});
    expect_refused(with("name", "\"gguf_kv\""), {"belongs to the entry named gguf_kv"});
    expect_refused(with("offset", "32"), {"offset 32 is not a multiple of 64"});
    expect_refused(with("offset", "0"), {"offset 0 is not a multiple of 64 behind the header"});
    expect_refused(with("offset", "18446744073709551552"), {"lie outside the file"});
    expect_refused(with("offset", "320"), {"overlap at offset 320"});  // where the table begins
    expect_refused(with("nbytes", "0"), {"the payload is empty"});
    expect_refused(with("xxh3", "\"12\""), {"not 16 hex digits"});
    expect_refused(with("xxh3", "\"+123456789abcdef\""), {"not 16 hex digits"});
    for (const char* key : {"name", "type", "shape", "offset", "nbytes", "xxh3"}) {
        expect_refused(without(key), {std::string(key)});
    }
    expect_refused("[" + entry("") + "," + entry("") + "]", {"entry a occurs twice"});
    expect_refused("[3]", {"entry 0 is not a JSON object"});
    expect_refused("{}", {"table of contents: not a JSON array"});
    expect_refused("[" + entry(", \"name\": \"b\"") + "]", {"key 'name' occurs twice"});
    expect_refused("[", {"table of contents: not valid JSON"});
    expect_refused("[" + entry("") + "]", {"metadata: not valid JSON"}, "{");
    expect_refused("[" + entry("") + "]", {"metadata: not a JSON object"}, "[]");
    expect_refused("[" + entry("") + "]", {"metadata", "nested deeper than 64"},
                   "{\"a\":" + std::string(64, '[') + std::string(64, ']') + "}");
}

TEST(Knot, two_wires_need_two_dimensions_and_unknown_types_are_listed) {
    const auto toc = [](const std::string& type, const std::string& shape) {
        return R"([{"name": "a", "type": ")" + type + R"(", "shape": )" + shape +
               R"(, "offset": 64, "nbytes": 10, "xxh3": ")" + kChecksum + "\"}]";
    };
    expect_refused(toc("KAIJU1", "[1, 2, 3]"), {"3 dimensions, KAIJU1 tensors have 2"});
    expect_refused(toc("KAIJU4-3", "[3]"), {"1 dimensions"});
    const std::string file = make_knot(std::string(64, '\0'), toc("HYDRA9", "[1, 2, 3]"));
    EXPECT_EQ(parse_knot(bytes_of(file)).entries[0].info.type, "HYDRA9");
}

TEST(Knot, header_lengths_cannot_reach_outside_or_overlap) {
    std::string file = test::slurp(test::golden_dir() / "tiny.knot");
    const auto with_u64 = [&](size_t at, uint64_t value) {
        std::string changed = file;
        store(changed.data() + at, value);
        return changed;
    };
    for (const size_t field : {8U, 16U, 24U, 32U}) {
        for (const uint64_t value :
             {uint64_t{0} - 1, uint64_t{1} << 63, uint64_t{file.size()}, uint64_t{1} << 32}) {
            const std::string changed = with_u64(field, value);
            EXPECT_THROW(static_cast<void>(parse_knot(bytes_of(changed))), Error) << field << " = " << value;
        }
    }
    const std::string moved = with_u64(40, 128);
    expect_error(ErrorCode::bad_input, {"data_offset is 128"},
                 [&] { static_cast<void>(parse_knot(bytes_of(moved))); });
}

TEST(Knot, a_table_beyond_its_limit_is_refused_before_it_is_parsed) {
    constexpr uint64_t kLimit = uint64_t{64} << 20;
    test::Blob header;
    header.text("KNOT").put(uint32_t{1}).put(uint64_t{64}).put(uint64_t{0}).put(uint64_t{64}).put(kLimit + 1);
    header.put(uint64_t{64}).put(64 + kLimit + 1).put(uint64_t{0});
    expect_error(ErrorCode::bad_input, {"table of contents: 67108865 bytes, at most 67108864"},
                 [&] { static_cast<void>(KnotHeader::parse(bytes_of(header.str()), 64 + kLimit + 1)); });
}

TEST(Knot, opening_says_which_file) {
    expect_error(ErrorCode::bad_input, {"short_header.knot", "truncated", "64", "40"},
                 [] { static_cast<void>(KnotFile(test::golden_dir() / "bad" / "short_header.knot")); });
    expect_error(ErrorCode::bad_input, {"empty.knot", "truncated"},
                 [] { static_cast<void>(ModelFile::open(test::golden_dir() / "bad" / "empty.knot")); });
    expect_error(ErrorCode::missing, {"nowhere.knot"},
                 [] { static_cast<void>(ModelFile::open("nowhere.knot")); });
}

}  // namespace
}  // namespace kaiju::format
