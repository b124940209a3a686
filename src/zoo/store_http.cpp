#include "zoo/store_http.h"

#include <fmt/format.h>

#include <charconv>

namespace kaiju::zoo {

namespace {

class HttpStore final : public ObjectStore {
  public:
    HttpStore(std::string address, StoreOptions options)
        : address_(std::move(address)), options_(std::move(options)) {}

    [[nodiscard]] const std::string& address() const override { return address_; }
    [[nodiscard]] const StoreOptions& options() const override { return options_; }
    [[nodiscard]] bool writable() const override { return false; }

    std::optional<Object> head(const std::string& key) override {
        const std::string what = name_of(key);
        HttpResponse response = client_.send(what, options_.patience, [&] { return request("HEAD", key); });
        if (response.status == 403 || response.status == 405) {  // a server, or a signed URL, without HEAD
            response = client_.send(what, options_.patience, [&] {
                HttpRequest ranged = request("GET", key);
                ranged.headers.emplace_back("Range", range_header(0, 1));
                return ranged;
            });
        }
        if (response.status == 404 || response.status == 410) {
            return std::nullopt;
        }
        if (response.status != 200 && response.status != 206) {
            throw Error(ErrorCode::io, fmt::format("{}: HTTP {}", what, response.status));
        }
        return object_of(response, key, what);
    }

    std::vector<std::byte> get(const std::string& key, uint64_t offset, uint64_t length,
                               const std::string& etag) override {
        if (length == 0) {
            return {};
        }
        const std::string what = name_of(key);
        HttpResponse response = client_.send(
            what, options_.patience,
            [&] {
                HttpRequest ranged = request("GET", key);
                ranged.headers.emplace_back("Range", range_header(offset, length));
                if (!etag.empty() && !etag.starts_with("W/")) {
                    ranged.headers.emplace_back("If-Match", etag);
                }
                ranged.most = length;
                return ranged;
            },
            [&](const HttpResponse& answer) { return doubt_range(answer, length); });
        check_range(response, what, offset);
        return std::move(response.body);
    }

    std::vector<Object> list(const std::string& /*prefix*/) override { refuse("cannot be listed"); }
    bool put(const std::string& /*key*/, Bytes /*bytes*/, Condition /*condition*/) override {
        refuse("can only be read");
    }
    bool put_file(const std::string& /*key*/, const std::filesystem::path& /*file*/, Condition /*condition*/,
                  Monitor& /*monitor*/) override {
        refuse("can only be read");
    }
    void remove(const std::string& /*key*/) override { refuse("can only be read"); }

  private:
    [[nodiscard]] HttpRequest request(const std::string& method, const std::string& key) const {
        check_key(key);
        return {.method = method, .url = address_ + "/" + key, .headers = {}, .body = {}, .follow = true};
    }
    /// Without the query, which may hold a signature.
    [[nodiscard]] std::string name_of(const std::string& key) const {
        return address_ + "/" + key.substr(0, key.find('?'));
    }
    [[noreturn]] void refuse(std::string_view why) const {
        throw Error(ErrorCode::usage, fmt::format("{}: a web server {}", address_, why));
    }

    std::string address_;
    StoreOptions options_;
    HttpClient client_;
};

std::optional<uint64_t> number(std::string_view text) {
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || text.empty()) {
        return std::nullopt;
    }
    return value;
}

}  // namespace

std::unique_ptr<ObjectStore> open_http_store(const std::string& address, const StoreOptions& options) {
    return std::make_unique<HttpStore>(
        address.ends_with('/') ? address.substr(0, address.size() - 1) : address, options);
}

std::string range_header(uint64_t offset, uint64_t length) {
    return fmt::format("bytes={}-{}", offset, offset + length - 1);
}

std::string doubt_range(const HttpResponse& response, uint64_t length) {
    const bool whole = response.status == 200 || response.status == 206;
    return whole && response.body.size() != length
               ? fmt::format("{} bytes came where {} were asked for", response.body.size(), length)
               : std::string();
}

void check_range(const HttpResponse& response, const std::string& what, uint64_t offset) {
    switch (response.status) {
        case 206:
            return;
        case 200:
            if (offset == 0) {
                return;
            }
            throw Error(ErrorCode::bad_input, fmt::format("{}: the server ignores ranges", what));
        case 404:
        case 410:
            throw Error(ErrorCode::missing, fmt::format("{}: not there", what));
        case 412:
            throw Error(ErrorCode::bad_input, fmt::format("{}: was changed while it was read", what));
        case 416:
            throw Error(ErrorCode::bad_input, fmt::format("{}: ends before byte {}", what, offset));
        default:
            throw Error(ErrorCode::io, fmt::format("{}: HTTP {}", what, response.status));
    }
}

Object object_of(const HttpResponse& response, const std::string& key, const std::string& what) {
    const std::string range = response.header("content-range");
    const std::string length =
        range.empty() ? response.header("content-length") : range.substr(range.find('/') + 1);
    const std::optional<uint64_t> size = number(length);
    if (!size) {
        throw Error(ErrorCode::io, fmt::format("{}: the server does not tell its length", what));
    }
    return {.key = key,
            .size = *size,
            .etag = response.header("etag"),
            .sha256 = response.header("x-amz-meta-sha256")};
}

}  // namespace kaiju::zoo
