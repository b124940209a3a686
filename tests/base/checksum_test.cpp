#include "base/checksum.h"

#include <gtest/gtest.h>

namespace kaiju {
namespace {

Bytes bytes_of(std::string_view text) {
    return std::as_bytes(std::span(text));
}

TEST(Checksum, Sha256OfPublishedVectors) {  // FIPS 180-4 examples
    EXPECT_EQ(sha256(bytes_of("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    EXPECT_EQ(sha256(bytes_of("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Checksum, StreamingEqualsWhole) {
    const std::string text(100'000, 'x');
    Sha256 hash;
    hash.update(bytes_of(text).first(1));
    hash.update(bytes_of(text).subspan(1));
    EXPECT_EQ(hash.hex(), sha256(bytes_of(text)));
}

TEST(Checksum, Xxh3OfPublishedVector) {  // XXH3-64, seed 0, of the empty string
    EXPECT_EQ(hex16(xxh3(bytes_of(""))), "2d06800538d394c2");
    EXPECT_EQ(hex16(0x0AU), "000000000000000a");
}

}  // namespace
}  // namespace kaiju
