// Digests that object stores want: MD5 for Content-MD5, HMAC-SHA-256 for request signatures.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"

namespace kaiju::zoo {

[[nodiscard]] std::vector<std::byte> md5(Bytes bytes);
[[nodiscard]] std::vector<std::byte> hmac_sha256(Bytes key, std::string_view text);
[[nodiscard]] std::string hex(Bytes bytes);
[[nodiscard]] std::string base64(Bytes bytes);

}  // namespace kaiju::zoo
