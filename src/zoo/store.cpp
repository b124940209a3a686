#include "zoo/store.h"

#include <fmt/format.h>

#include <algorithm>

#include "zoo/store_file.h"
#include "zoo/store_http.h"
#include "zoo/store_s3.h"

namespace kaiju::zoo {

namespace {

constexpr std::string_view kFile = "file://";
constexpr std::string_view kS3 = "s3://";
constexpr size_t kLongestKey = 1024;

bool is_web(std::string_view text) {
    return text.starts_with("http://") || text.starts_with("https://");
}

void refuse_credentials(std::string_view address) {
    const std::string_view host = address.substr(address.find("://") + 3);
    if (host.substr(0, host.find('/')).find('@') != std::string_view::npos) {
        throw Error(ErrorCode::usage,
                    "an address with a user or password in it: credentials belong into the environment");
    }
}

}  // namespace

bool is_address(std::string_view text) {
    return text.starts_with(kS3) || text.starts_with(kFile) || is_web(text);
}

void check_key(std::string_view key) {
    const bool plain = !key.empty() && key.size() <= kLongestKey &&
                       std::all_of(key.begin(), key.end(), [](char c) { return c > ' ' && c < 127; });
    bool segments = plain;
    for (size_t begin = 0; segments && begin <= key.size();) {
        const size_t end = std::min(key.find('/', begin), key.size());
        const std::string_view segment = key.substr(begin, end - begin);
        segments = !segment.empty() && segment != "." && segment != "..";
        begin = end + 1;
    }
    if (!segments) {
        throw Error(
            ErrorCode::bad_input,
            fmt::format("'{}' cannot be a key: 1 to {} printable ASCII characters without spaces, and "
                        "no empty, \".\" or \"..\" segment",
                        plain ? std::string(key) : std::string("(unprintable)"), kLongestKey));
    }
}

std::unique_ptr<ObjectStore> open_store(const std::string& address, const StoreOptions& options) {
    if (address.starts_with(kS3) || is_web(address)) {
        refuse_credentials(address);
    }
    if (address.starts_with(kS3)) {
        return open_s3_store(address, options);
    }
    if (is_web(address)) {
        return open_http_store(address, options);
    }
    if (address.find("://") != std::string::npos && !address.starts_with(kFile)) {
        throw Error(ErrorCode::usage,
                    fmt::format("{}: no store of that kind: file://, s3:// and http(s):// are",
                                address.substr(0, address.find("://") + 3)));
    }
    return open_file_store(address, options);
}

ObjectAddress split_address(const std::string& address) {
    if (address.starts_with(kS3) || is_web(address)) {
        refuse_credentials(address);
        const size_t slash = address.find('/', address.find("://") + 3);
        if (slash == std::string::npos) {
            return {address, ""};
        }
        return {address.substr(0, slash), address.substr(slash + 1)};
    }
    const std::string path = address.starts_with(kFile) ? address.substr(kFile.size()) : address;
    const size_t slash = path.rfind('/');
    if (slash == std::string::npos) {
        return {".", path};
    }
    return {slash == 0 ? "/" : path.substr(0, slash), path.substr(slash + 1)};
}

std::string get_text(ObjectStore& store, const std::string& key, uint64_t limit) {
    const std::optional<Object> object = store.head(key);
    if (!object) {
        throw Error(ErrorCode::missing, fmt::format("{}/{}: not there", store.address(), key));
    }
    if (object->size > limit) {
        throw Error(ErrorCode::bad_input, fmt::format("{}/{}: {} bytes, more than the {} that are read",
                                                      store.address(), key, object->size, limit));
    }
    return std::string(as_text(store.get(key, 0, object->size, object->etag)));
}

}  // namespace kaiju::zoo
