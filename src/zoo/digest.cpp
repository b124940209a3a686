#include "zoo/digest.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>

namespace kaiju::zoo {

std::vector<std::byte> md5(Bytes bytes) {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    unsigned int length = 0;
    if (EVP_Digest(bytes.data(), bytes.size(), digest.data(), &length, EVP_md5(), nullptr) != 1) {
        throw Error(ErrorCode::internal, "MD5 is not available in this build of OpenSSL");
    }
    const auto* begin = reinterpret_cast<const std::byte*>(digest.data());
    return {begin, begin + length};
}

std::vector<std::byte> hmac_sha256(Bytes key, std::string_view text) {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    unsigned int length = 0;
    HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
         reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data(), &length);
    const auto* begin = reinterpret_cast<const std::byte*>(digest.data());
    return {begin, begin + length};
}

std::string hex(Bytes bytes) {
    static constexpr std::string_view kDigits = "0123456789abcdef";
    std::string text;
    text.reserve(2 * bytes.size());
    for (const std::byte byte : bytes) {
        const auto value = std::to_integer<size_t>(byte);
        text += kDigits[value >> 4U];
        text += kDigits[value & 15U];
    }
    return text;
}

std::string base64(Bytes bytes) {
    static constexpr std::string_view kDigits =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string text;
    for (size_t i = 0; i < bytes.size(); i += 3) {
        uint32_t group = 0;
        for (size_t j = 0; j < 3; ++j) {
            group = group << 8U | (i + j < bytes.size() ? std::to_integer<uint32_t>(bytes[i + j]) : 0U);
        }
        for (size_t j = 0; j < 4; ++j) {
            text += i + j <= bytes.size() ? kDigits[group >> (18 - 6 * j) & 63U] : '=';
        }
    }
    return text;
}

}  // namespace kaiju::zoo
