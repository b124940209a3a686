#include "zoo/sigv4.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/checksum.h"
#include "zoo/digest.h"

namespace kaiju::zoo {

namespace {

Bytes bytes_of(std::string_view text) {
    return std::as_bytes(std::span(text));
}

std::string lower(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return text;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> sign_v4(const SignedRequest& request,
                                                         const Credentials& credentials,
                                                         std::string_view region, std::string_view time) {
    auto headers = request.headers;
    headers.emplace_back("x-amz-content-sha256", request.body_sha256);
    headers.emplace_back("x-amz-date", time);
    if (!credentials.session_token.empty()) {
        headers.emplace_back("x-amz-security-token", credentials.session_token);
    }
    std::map<std::string, std::string> sorted{{"host", request.host}};
    for (const auto& [name, value] : headers) {
        sorted[lower(name)] = value;
    }
    std::string names;
    std::string canonical = fmt::format("{}\n{}\n{}\n", request.method, request.path, request.query);
    for (const auto& [name, value] : sorted) {
        canonical += fmt::format("{}:{}\n", name, value);
        names += (names.empty() ? "" : ";") + name;
    }
    canonical += fmt::format("\n{}\n{}", names, request.body_sha256);

    const std::string_view day = time.substr(0, 8);
    const std::string scope = fmt::format("{}/{}/s3/aws4_request", day, region);
    const std::string to_sign =
        fmt::format("AWS4-HMAC-SHA256\n{}\n{}\n{}", time, scope, sha256(bytes_of(canonical)));
    auto key = hmac_sha256(bytes_of("AWS4" + credentials.secret_key), day);
    for (const std::string_view part : {region, std::string_view("s3"), std::string_view("aws4_request")}) {
        key = hmac_sha256(key, part);
    }
    headers.emplace_back("Authorization",
                         fmt::format("AWS4-HMAC-SHA256 Credential={}/{},SignedHeaders={},Signature={}",
                                     credentials.access_key, scope, names, hex(hmac_sha256(key, to_sign))));
    return headers;
}

}  // namespace kaiju::zoo
