#include "zoo/store_s3.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <ctime>

#include "base/checksum.h"
#include "base/file.h"
#include "base/parallel.h"
#include "zoo/credentials.h"
#include "zoo/digest.h"
#include "zoo/http_client.h"
#include "zoo/sigv4.h"
#include "zoo/store_http.h"
#include "zoo/xml.h"

namespace kaiju::zoo {

namespace {

using Headers = std::vector<std::pair<std::string, std::string>>;
/// Names sorted; that is how they are signed.
using Query = std::map<std::string, std::string>;

constexpr uint64_t kMostParts = 10'000;
constexpr double kAbortPatience = 5;

/// What a request needs beyond its key.
struct Call {
    std::string method = "GET";
    Query query{};
    Headers headers{};
    Bytes body{};
    uint64_t most = uint64_t{64} << 20;
    uint64_t range = 0;  ///< bytes that a ranged GET must bring; 0: any number
};

class S3Store final : public ObjectStore {
  public:
    S3Store(const std::string& address, StoreOptions options)
        : address_(address.ends_with('/') ? address.substr(0, address.size() - 1) : address),
          options_(std::move(options)),
          settings_(load_s3_settings()) {
        const std::string rest = address_.substr(5);
        const size_t slash = rest.find('/');
        bucket_ = rest.substr(0, slash);
        prefix_ = slash == std::string::npos ? std::string() : rest.substr(slash + 1) + "/";
        if (bucket_.empty()) {
            throw Error(ErrorCode::usage, "s3:// names no bucket");
        }
        if (!options_.region.empty()) {
            settings_.region = options_.region;
        }
        if (!options_.endpoint.empty()) {
            settings_.endpoint = options_.endpoint;
        }
        place_host();
    }

    [[nodiscard]] const std::string& address() const override { return address_; }
    [[nodiscard]] const StoreOptions& options() const override { return options_; }

    std::optional<Object> head(const std::string& key) override {
        const HttpResponse response = call(key, {.method = "HEAD"});
        if (response.status == 404) {
            require_bucket();
            return std::nullopt;
        }
        require(response, key, 200);
        bucket_seen_ = true;
        return object_of(response, key, name_of(key));
    }

    std::vector<std::byte> get(const std::string& key, uint64_t offset, uint64_t length,
                               const std::string& etag) override {
        if (length == 0) {
            return {};
        }
        Call ranged{.headers = {{"Range", range_header(offset, length)}}, .most = length, .range = length};
        if (!etag.empty()) {
            ranged.headers.emplace_back("If-Match", etag);
        }
        HttpResponse response = call(key, ranged);
        if (response.status == 403) {
            require(response, key, 206);
        }
        check_range(response, name_of(key), offset);
        return std::move(response.body);
    }

    std::vector<Object> list(const std::string& prefix) override {
        std::vector<Object> found;
        std::string token;
        do {
            Query query{{"list-type", "2"}, {"max-keys", "1000"}, {"prefix", prefix_ + prefix}};
            if (!token.empty()) {
                query["continuation-token"] = token;
            }
            const HttpResponse response = call("", {.query = query});
            require(response, prefix, 200);
            token = read_page(response, found);
        } while (!token.empty());
        std::sort(found.begin(), found.end(), [](const Object& a, const Object& b) { return a.key < b.key; });
        return found;
    }

    bool put(const std::string& key, Bytes bytes, Condition condition) override {
        check_key(key);
        return put_whole(key, bytes, condition, sha256(bytes));
    }

    bool put_file(const std::string& key, const std::filesystem::path& path, Condition condition,
                  Monitor& monitor) override {
        check_key(key);
        const MappedFile file(path);
        const std::string hash = sha256_file(path);
        monitor.begin("upload", file.bytes().size(), "bytes");
        const bool done = file.bytes().size() <= options_.whole_bytes
                              ? put_whole(key, file.bytes(), condition, hash)
                              : put_parts(key, file, condition, hash, monitor);
        monitor.end();
        if (done) {
            const std::optional<Object> there = head(key);
            if (!there || there->size != file.bytes().size() ||
                (!there->sha256.empty() && there->sha256 != hash)) {
                throw Error(ErrorCode::io, fmt::format("{}: is not what was uploaded", name_of(key)));
            }
        }
        return done;
    }

    void remove(const std::string& key) override {
        const HttpResponse response = call(key, {.method = "DELETE"});
        if (response.status != 404) {
            require(response, key, 204);
        }
    }

  private:
    void place_host() {
        std::string endpoint = settings_.endpoint.empty()
                                   ? fmt::format("https://s3.{}.amazonaws.com", settings_.region)
                                   : settings_.endpoint;
        if (!endpoint.starts_with("http://") && !endpoint.starts_with("https://")) {
            throw Error(ErrorCode::usage,
                        fmt::format("endpoint {}: begins with neither http:// nor https://", endpoint));
        }
        if (endpoint.find('@') != std::string::npos) {
            throw Error(ErrorCode::usage, "an endpoint with a user or password in it");
        }
        while (endpoint.ends_with('/')) {
            endpoint.pop_back();
        }
        // A bucket with dots has no certificate as a host name.
        const bool fitting = settings_.endpoint.empty() && bucket_.find('.') == std::string::npos;
        const bool virtual_host =
            options_.virtual_host ? *options_.virtual_host : settings_.virtual_host.value_or(fitting);
        const size_t host = endpoint.find("://") + 3;
        scheme_ = endpoint.substr(0, host);
        host_ = endpoint.substr(host);
        root_ = virtual_host ? std::string("/") : fmt::format("/{}/", percent_encode(bucket_, false));
        if (virtual_host) {
            host_ = bucket_ + "." + host_;
        }
        if (const size_t slash = host_.find('/'); slash != std::string::npos) {
            root_ = host_.substr(slash) + root_;
            host_.resize(slash);
        }
    }

    [[nodiscard]] std::string name_of(const std::string& key) const { return address_ + "/" + key; }

    [[nodiscard]] HttpRequest request(const std::string& key, const Call& call) const {
        std::string path = root_;
        if (key.empty()) {  // the bucket itself
            path = path.size() > 1 ? path.substr(0, path.size() - 1) : path;
        } else {
            path += percent_encode(prefix_ + key, true);
        }
        std::string query;
        for (const auto& [name, value] : call.query) {
            query += fmt::format("{}{}={}", query.empty() ? "" : "&", percent_encode(name, false),
                                 percent_encode(value, false));
        }
        HttpRequest made{
            .method = call.method,
            .url = scheme_ + host_ + path + (query.empty() ? std::string() : fmt::format("?{}", query)),
            .headers = call.headers,
            .body = call.body,
            .most = call.most};
        if (call.most < kErrorBytes) {
            made.most = kErrorBytes;  // room for the reason of a refusal
        }
        if (settings_.credentials) {
            const std::time_t now = std::time(nullptr) + skew_.load();
            made.headers = sign_v4({.method = call.method,
                                    .host = host_,
                                    .path = path,
                                    .query = query,
                                    .headers = call.headers,
                                    .body_sha256 = sha256(call.body)},
                                   *settings_.credentials, settings_.region,
                                   fmt::format("{:%Y%m%dT%H%M%SZ}", fmt::gmtime(now)));
        }
        return made;
    }

    HttpResponse call(const std::string& key, const Call& given) {
        return call(key, given, options_.patience);
    }

    HttpResponse call(const std::string& key, const Call& given, double patience) {
        if (!key.empty()) {
            check_key(key);
        }
        return client_.send(
            name_of(key), patience, [&] { return request(key, given); },
            [&](const HttpResponse& answer) { return doubt(answer, given); });
    }

    /// Answers that asking again may mend.
    std::string doubt(const HttpResponse& answer, const Call& given) {
        if (given.range > 0) {
            if (std::string reason = doubt_range(answer, given.range); !reason.empty()) {
                return reason;
            }
        }
        if (answer.status < 400) {
            return {};
        }
        std::string code = xml_text(as_text(answer.body), "Error/Code");
        if (code == "RequestTimeTooSkewed") {  // this host's clock is wrong: go by the server's
            const std::time_t theirs = parse_date(answer.header("date"));
            skew_ = theirs > 0 ? theirs - std::time(nullptr) : 0;
            return code;
        }
        const bool passing = code == "RequestTimeout" || code == "SlowDown" || code == "OperationAborted" ||
                             code == "ConditionalRequestConflict" || code == "BadDigest" ||
                             code == "IncompleteBody";
        return passing ? code : std::string();
    }

    static std::time_t parse_date(const std::string& text) {
        std::tm parts{};
        return ::strptime(text.c_str(), "%a, %d %b %Y %H:%M:%S", &parts) == nullptr ? 0 : ::timegm(&parts);
    }

    /// An object that is not there and a bucket that is not there answer a HEAD alike.
    void require_bucket() {
        if (!bucket_seen_) {
            require(call("", {.query = {{"list-type", "2"}, {"max-keys", "1"}}}), "", 200);
            bucket_seen_ = true;
        }
    }

    void require(const HttpResponse& response, const std::string& key, long status) const {
        if (response.status == status) {
            return;
        }
        const std::string code = xml_text(as_text(response.body), "Error/Code");
        std::string reason = fmt::format("HTTP {}{}", response.status,
                                         code.empty() ? "" : fmt::format(" {}", code.substr(0, 64)));
        if (response.status == 403) {
            reason += settings_.credentials ? " (do these credentials allow it?)"
                                            : " (there are no credentials in the environment)";
        }
        const bool no_object = response.status == 404 && code != "NoSuchBucket";
        throw Error(no_object ? ErrorCode::missing : ErrorCode::io,
                    fmt::format("{}: {}", name_of(key), reason));
    }

    std::string read_page(const HttpResponse& response, std::vector<Object>& found) const {
        Object next;
        std::string token;
        walk_xml(as_text(response.body), [&](const std::string& path, const std::string& text) {
            if (path == "ListBucketResult/Contents/Key") {
                next.key = text.starts_with(prefix_) ? text.substr(prefix_.size()) : std::string();
            } else if (path == "ListBucketResult/Contents/Size") {
                std::from_chars(text.data(), text.data() + text.size(), next.size);
            } else if (path == "ListBucketResult/Contents/ETag") {
                next.etag = text;
            } else if (path == "ListBucketResult/Contents") {
                if (!next.key.empty() && !next.key.ends_with('/')) {
                    found.push_back(next);
                }
                next = {};
            } else if (path == "ListBucketResult/NextContinuationToken") {
                token = text;
            }
        });
        return token;
    }

    static void add_condition(Headers& headers, Condition condition) {
        if (condition == Condition::absent) {
            headers.emplace_back("If-None-Match", "*");
        }
    }

    bool put_whole(const std::string& key, Bytes bytes, Condition condition, const std::string& hash) {
        Call put{.method = "PUT",
                 .headers = {{"Content-MD5", base64(md5(bytes))}, {"x-amz-meta-sha256", hash}},
                 .body = bytes};
        add_condition(put.headers, condition);
        const HttpResponse response = call(key, put);
        if (response.status == 412 && condition == Condition::absent) {
            // An answer may have been lost on the way: what is there may be what we put.
            return response.tries > 1 && is_ours(key, bytes.size(), hash);
        }
        require(response, key, 200);
        return true;
    }

    bool is_ours(const std::string& key, uint64_t size, const std::string& hash) {
        const std::optional<Object> there = head(key);
        return there && there->size == size && there->sha256 == hash;
    }

    bool put_parts(const std::string& key, const MappedFile& file, Condition condition,
                   const std::string& hash, Monitor& monitor) {
        const HttpResponse begun = call(
            key, {.method = "POST", .query = {{"uploads", ""}}, .headers = {{"x-amz-meta-sha256", hash}}});
        require(begun, key, 200);
        const std::string id = xml_text(as_text(begun.body), "InitiateMultipartUploadResult/UploadId");
        if (id.empty()) {
            throw Error(ErrorCode::io,
                        fmt::format("{}: the server began an upload without naming it", name_of(key)));
        }
        try {
            const std::vector<std::string> etags = upload_parts(key, id, file, monitor);
            const bool done = complete(key, id, etags, file.bytes().size(), condition, hash);
            if (!done) {
                abort(key, id);
            }
            return done;
        } catch (...) {
            abort(key, id);
            throw;
        }
    }

    std::vector<std::string> upload_parts(const std::string& key, const std::string& id,
                                          const MappedFile& file, Monitor& monitor) {
        const Bytes all = file.bytes();
        const uint64_t part = std::max(options_.part_bytes, all.size() / kMostParts + 1);
        std::vector<std::string> etags((all.size() + part - 1) / part);
        parallel_for(etags.size(), 1, options_.parallel, [&](size_t begin, size_t end) {
            for (size_t i = begin; i < end; ++i) {
                monitor.check_cancelled();
                const Bytes bytes = all.subspan(i * part, std::min<uint64_t>(part, all.size() - i * part));
                const auto digest = md5(bytes);
                const HttpResponse response =
                    call(key, {.method = "PUT",
                               .query = {{"partNumber", std::to_string(i + 1)}, {"uploadId", id}},
                               .headers = {{"Content-MD5", base64(digest)}},
                               .body = bytes});
                require(response, key, 200);
                etags[i] = response.header("etag");
                file.release(bytes);
                monitor.advance(bytes.size());
            }
        });
        return etags;
    }

    bool complete(const std::string& key, const std::string& id, const std::vector<std::string>& etags,
                  uint64_t size, Condition condition, const std::string& hash) {
        std::string list = "<CompleteMultipartUpload>";
        for (size_t i = 0; i < etags.size(); ++i) {
            list += fmt::format("<Part><PartNumber>{}</PartNumber><ETag>{}</ETag></Part>", i + 1, etags[i]);
        }
        list += "</CompleteMultipartUpload>";
        Call post{.method = "POST", .query = {{"uploadId", id}}, .body = std::as_bytes(std::span(list))};
        add_condition(post.headers, condition);
        const HttpResponse response = call(key, post);
        const bool failed = response.status != 200 || !xml_text(as_text(response.body), "Error/Code").empty();
        if (failed && response.tries > 1 && is_ours(key, size, hash)) {
            return true;  // an earlier try worked and its answer was lost
        }
        if (response.status == 412 && condition == Condition::absent) {
            return false;
        }
        if (response.status == 200 && failed) {  // S3 may begin its answer before it knows
            throw Error(ErrorCode::io,
                        fmt::format("{}: the upload could not be completed: {}", name_of(key),
                                    xml_text(as_text(response.body), "Error/Code").substr(0, 64)));
        }
        require(response, key, 200);
        return true;
    }

    void abort(const std::string& key, const std::string& id) {
        try {
            (void)call(key, {.method = "DELETE", .query = {{"uploadId", id}}}, kAbortPatience);
        } catch (const Error&) {
            // The first error is the one to tell; parts of an upload without end are invisible.
        }
    }

    static constexpr uint64_t kErrorBytes = uint64_t{64} << 10;

    std::string address_;
    std::atomic<bool> bucket_seen_ = false;
    StoreOptions options_;
    S3Settings settings_;
    std::string bucket_;
    std::string prefix_;  ///< ends with a slash, or is empty
    std::string scheme_;
    std::string host_;
    std::string root_;  ///< path of the bucket, ends with a slash
    std::atomic<std::time_t> skew_{0};
    HttpClient client_;
};

}  // namespace

std::unique_ptr<ObjectStore> open_s3_store(const std::string& address, const StoreOptions& options) {
    return std::make_unique<S3Store>(address, options);
}

}  // namespace kaiju::zoo
