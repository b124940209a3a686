#include "base/bytes.h"

#include <gtest/gtest.h>

#include <limits>

namespace kaiju {
namespace {

TEST(Bytes, CheckedArithmeticThrowsOnOverflowAndNamesTheValue) {
    EXPECT_EQ(checked_add(3, 4, "sum"), 7U);
    EXPECT_EQ(checked_mul(UINT64_MAX, 1, "product"), UINT64_MAX);
    EXPECT_THROW((void)checked_add(UINT64_MAX, 1, "sum"), Error);
    try {
        (void)checked_mul(uint64_t{1} << 32, uint64_t{1} << 32, "rows x row_bytes");
        FAIL() << "no overflow found";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::bad_input);
        EXPECT_NE(std::string(error.what()).find("rows x row_bytes"), std::string::npos);
    }
}

TEST(Bytes, FitsDoesNotOverflow) {
    EXPECT_TRUE(fits(0, 0, 0));
    EXPECT_TRUE(fits(10, 6, 16));
    EXPECT_FALSE(fits(10, 7, 16));
    EXPECT_FALSE(fits(UINT64_MAX, 2, 16));
    EXPECT_FALSE(fits(2, UINT64_MAX, 16));
}

TEST(Bytes, ReaderReturnsWhatTheWriterWrote) {
    ByteWriter writer;
    writer.write(uint32_t{0x01020304});
    writer.write(1.5F);
    writer.append("abc");
    EXPECT_EQ(std::to_integer<int>(writer.bytes()[0]), 4);  // little-endian

    ByteReader reader(writer.bytes());
    EXPECT_EQ(reader.read<uint32_t>("number"), 0x01020304U);
    EXPECT_EQ(reader.read<float>("real"), 1.5F);
    EXPECT_EQ(reader.text(3, "text"), "abc");
    EXPECT_EQ(reader.remaining(), 0U);
}

TEST(Bytes, ReaderRefusesToRunPastTheEnd) {
    const std::vector<std::byte> three(3);
    ByteReader reader(three);
    try {
        (void)reader.read<uint32_t>("row count");
        FAIL() << "read four bytes of three";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::bad_input);
        EXPECT_STREQ(error.what(), "truncated: row count needs 4 bytes at offset 0, 3 are left");
    }
    EXPECT_THROW((void)reader.take(UINT64_MAX, "everything"), Error);
}

TEST(Error, PlacesAreAddedOutermostFirst) {
    try {
        within("model.gguf",
               [] { within("tensor a", [] { throw Error(ErrorCode::missing, "no importance"); }); });
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::missing);
        EXPECT_STREQ(error.what(), "model.gguf: tensor a: no importance");
    }
}

}  // namespace
}  // namespace kaiju
