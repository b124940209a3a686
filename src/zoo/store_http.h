// Web servers as object stores that can only be read, and what reading over HTTP shares with S3.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "zoo/http_client.h"
#include "zoo/store.h"

namespace kaiju::zoo {

[[nodiscard]] std::unique_ptr<ObjectStore> open_http_store(const std::string& address,
                                                           const StoreOptions& options);

/// "bytes=FIRST-LAST" of a range that is not empty.
[[nodiscard]] std::string range_header(uint64_t offset, uint64_t length);

/// Why the answer to a ranged GET cannot be what was asked for, where asking again may help: a body of
/// another length. Empty where it is fine or an answer of another kind.
[[nodiscard]] std::string doubt_range(const HttpResponse& response, uint64_t length);

/// Judges the status of a ranged GET. Throws missing (404), bad_input (412: changed; 416: no such range; 200:
/// the server ignores ranges), io.
void check_range(const HttpResponse& response, const std::string& what, uint64_t offset);

/// Size and etag of a HEAD's answer. Throws io where there is no length.
[[nodiscard]] Object object_of(const HttpResponse& response, const std::string& key, const std::string& what);

}  // namespace kaiju::zoo
