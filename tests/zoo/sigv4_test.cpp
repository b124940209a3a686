// Signatures against the worked examples of Amazon's S3 reference.
#include "zoo/sigv4.h"

#include <gtest/gtest.h>

#include "zoo/digest.h"

namespace kaiju::zoo {
namespace {

const Credentials kExample{"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", ""};
constexpr std::string_view kEmpty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

std::string signature(SignedRequest request) {
    request.host = "examplebucket.s3.amazonaws.com";
    const auto headers = sign_v4(request, kExample, "us-east-1", "20130524T000000Z");
    const std::string& line = headers.back().second;
    return line.substr(line.rfind('=') + 1);
}

TEST(SigV4, GetObjectByRange) {
    EXPECT_EQ(signature({.method = "GET",
                         .host = {},
                         .path = "/test.txt",
                         .query = {},
                         .headers = {{"Range", "bytes=0-9"}},
                         .body_sha256 = std::string(kEmpty)}),
              "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}

TEST(SigV4, PutObject) {
    EXPECT_EQ(signature({.method = "PUT",
                         .host = {},
                         .path = "/test%24file.text",
                         .query = {},
                         .headers = {{"Date", "Fri, 24 May 2013 00:00:00 GMT"},
                                     {"x-amz-storage-class", "REDUCED_REDUNDANCY"}},
                         .body_sha256 = "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072"}),
              "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
}

TEST(SigV4, FlagAndListQueries) {
    EXPECT_EQ(signature({.method = "GET",
                         .host = {},
                         .path = "/",
                         .query = "lifecycle=",
                         .headers = {},
                         .body_sha256 = std::string(kEmpty)}),
              "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
    EXPECT_EQ(signature({.method = "GET",
                         .host = {},
                         .path = "/",
                         .query = "max-keys=2&prefix=J",
                         .headers = {},
                         .body_sha256 = std::string(kEmpty)}),
              "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

TEST(SigV4, ASessionTokenIsSignedAndSent) {
    Credentials session = kExample;
    session.session_token = "token";
    const auto headers = sign_v4({.method = "GET",
                                  .host = "h",
                                  .path = "/",
                                  .query = {},
                                  .headers = {},
                                  .body_sha256 = std::string(kEmpty)},
                                 session, "us-east-1", "20130524T000000Z");
    EXPECT_EQ(headers[2].first, "x-amz-security-token");
    EXPECT_NE(headers.back().second.find("x-amz-date;x-amz-security-token,"), std::string::npos);
}

TEST(Digest, Base64AndMd5AsPublished) {
    const auto text = [](std::string_view value) { return std::as_bytes(std::span(value)); };
    EXPECT_EQ(base64(text("")), "");
    EXPECT_EQ(base64(text("f")), "Zg==");
    EXPECT_EQ(base64(text("fo")), "Zm8=");
    EXPECT_EQ(base64(text("foobar")), "Zm9vYmFy");
    EXPECT_EQ(hex(md5(text("abc"))), "900150983cd24fb0d6963f7d28e17f72");
}

}  // namespace
}  // namespace kaiju::zoo
