#include "format/stock_types.h"

#include <ggml.h>

#include "bytes.h"

namespace kaiju::format {
namespace {

TEST(StockTypes, names_are_those_of_gguf_in_upper_case) {
    for (const char* name :
         {"F32", "F16", "BF16", "Q8_0", "Q4_K", "Q5_K", "Q6_K", "IQ2_S", "IQ3_S", "IQ3_XXS", "MXFP4"}) {
        const StockType* type = find_stock_type(name);
        ASSERT_NE(type, nullptr) << name;
        EXPECT_EQ(find_stock_type(type->ggml), type);
        EXPECT_EQ(type->block_weights,
                  static_cast<uint64_t>(ggml_blck_size(static_cast<ggml_type>(type->ggml))));
    }
    for (const char* name : {"f32", "q4_K", "", "KAIJU1", "DEPRECATED", "GGUF_KV"}) {
        EXPECT_EQ(find_stock_type(name), nullptr) << name;
    }
    EXPECT_EQ(find_stock_type(4U), nullptr);   // Q4_2, removed
    EXPECT_EQ(find_stock_type(31U), nullptr);  // Q4_0_4_4, removed
    EXPECT_EQ(find_stock_type(static_cast<uint32_t>(GGML_TYPE_COUNT)), nullptr);
    EXPECT_EQ(find_stock_type(~0U), nullptr);
}

TEST(StockTypes, sizes_are_whole_blocks) {
    const std::vector<uint64_t> shape = {3, 5, 512};
    EXPECT_EQ(stock_payload_bytes(*find_stock_type("F16"), shape), 3U * 5 * 512 * 2);
    EXPECT_EQ(stock_payload_bytes(*find_stock_type("Q4_K"), shape), 3U * 5 * 2 * 144);
    const std::vector<uint64_t> odd = {3, 100};
    test::expect_error(ErrorCode::bad_input, {"rows of 100 weights", "blocks of 256", "Q4_K"},
                       [&] { static_cast<void>(stock_payload_bytes(*find_stock_type("Q4_K"), odd)); });
    const std::vector<uint64_t> huge = {uint64_t{1} << 32, uint64_t{1} << 31};
    test::expect_error(ErrorCode::bad_input, {"overflows"},
                       [&] { static_cast<void>(stock_payload_bytes(*find_stock_type("F64"), huge)); });
}

TEST(StockTypes, names_from_files_are_shown_without_control_characters) {
    EXPECT_TRUE(is_plain_name("blk.0.attn_q.weight", 63));
    EXPECT_FALSE(is_plain_name("", 63));
    EXPECT_FALSE(is_plain_name("a b", 63));
    EXPECT_FALSE(is_plain_name("a\x7f", 63));
    EXPECT_FALSE(is_plain_name("aa", 1));
    EXPECT_EQ(printable("a\n\x1b[0m\xc3\xa9"), "a??[0m??");
    EXPECT_EQ(printable(std::string(100, 'x')), std::string(80, 'x') + "...");
}

}  // namespace
}  // namespace kaiju::format
