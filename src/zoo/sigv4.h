// Signatures of S3 requests (AWS Signature Version 4, as published in Amazon's S3 reference).
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "zoo/credentials.h"

namespace kaiju::zoo {

/// What is signed. Path and query are percent-encoded already, the query sorted by name.
struct SignedRequest {
    std::string method;
    std::string host;
    std::string path;
    std::string query;
    std::vector<std::pair<std::string, std::string>> headers;  ///< all are signed; without host
    std::string body_sha256;                                   ///< hex
};

/// The headers to send: those of the request, x-amz-content-sha256, x-amz-date, the session token where there
/// is one, and Authorization. `time` is "YYYYMMDDTHHMMSSZ". The library's own signer is not used: in the
/// version of Debian 12 it signs headers that it does not send, and leaves queries unsorted.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> sign_v4(const SignedRequest& request,
                                                                       const Credentials& credentials,
                                                                       std::string_view region,
                                                                       std::string_view time);

}  // namespace kaiju::zoo
