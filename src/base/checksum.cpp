#include "base/checksum.h"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <xxhash.h>

namespace kaiju {

uint64_t xxh3(Bytes bytes) {
    return XXH3_64bits(bytes.data(), bytes.size());
}

std::string hex16(uint64_t value) {
    return fmt::format("{:016x}", value);
}

struct Sha256::Context {
    EVP_MD_CTX* md = EVP_MD_CTX_new();
    ~Context() { EVP_MD_CTX_free(md); }
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
    if (EVP_DigestInit_ex(context_->md, EVP_sha256(), nullptr) != 1) {
        throw Error(ErrorCode::internal, "SHA-256 is not available in this build of OpenSSL");
    }
}

Sha256::~Sha256() = default;

void Sha256::update(Bytes bytes) {
    EVP_DigestUpdate(context_->md, bytes.data(), bytes.size());
}

std::string Sha256::hex() {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int length = 0;
    EVP_DigestFinal_ex(context_->md, digest, &length);
    std::string text;
    for (unsigned int i = 0; i < length; ++i) {
        text += fmt::format("{:02x}", digest[i]);
    }
    return text;
}

std::string sha256(Bytes bytes) {
    Sha256 hash;
    hash.update(bytes);
    return hash.hex();
}

}  // namespace kaiju
