#include "zoo/http_client.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <random>
#include <thread>

#include "base/error.h"

namespace kaiju::zoo {

namespace {

using Clock = std::chrono::steady_clock;

constexpr long kConnectSeconds = 10;
constexpr long kStalledSeconds = 30;  ///< less than a byte a second for so long is a dead connection
constexpr std::chrono::milliseconds kFirstPause{250};
constexpr std::chrono::milliseconds kLongestPause{8000};

struct HeaderList {
    curl_slist* list = nullptr;
    ~HeaderList() { curl_slist_free_all(list); }
    void add(const std::string& line) { list = curl_slist_append(list, line.c_str()); }
};

struct Upload {
    Bytes rest;
    Bytes whole;
};

struct Download {
    HttpResponse* response;
    uint64_t most;
};

size_t take_body(char* data, size_t size, size_t count, void* user) {
    auto& download = *static_cast<Download*>(user);
    const size_t length = size * count;
    if (download.response->body.size() + length > download.most) {
        return 0;
    }
    const auto* begin = reinterpret_cast<const std::byte*>(data);
    download.response->body.insert(download.response->body.end(), begin, begin + length);
    return length;
}

size_t give_body(char* data, size_t size, size_t count, void* user) {
    auto& upload = *static_cast<Upload*>(user);
    const size_t length = std::min(size * count, upload.rest.size());
    std::copy_n(upload.rest.data(), length, reinterpret_cast<std::byte*>(data));
    upload.rest = upload.rest.subspan(length);
    return length;
}

int rewind_body(void* user, curl_off_t offset, int origin) {
    auto& upload = *static_cast<Upload*>(user);
    if (origin != SEEK_SET || offset < 0 || static_cast<uint64_t>(offset) > upload.whole.size()) {
        return CURL_SEEKFUNC_CANTSEEK;
    }
    upload.rest = upload.whole.subspan(static_cast<size_t>(offset));
    return CURL_SEEKFUNC_OK;
}

size_t take_header(char* data, size_t size, size_t count, void* user) {
    auto& response = *static_cast<HttpResponse*>(user);
    const std::string_view line(data, size * count);
    if (line.starts_with("HTTP/")) {
        response.headers.clear();  // of a redirection, or 100 Continue
    } else if (const size_t colon = line.find(':'); colon != std::string_view::npos) {
        std::string name(line.substr(0, colon));
        std::transform(name.begin(), name.end(), name.begin(),
                       [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
        std::string_view value = line.substr(colon + 1);
        constexpr std::string_view kBlank = " \t\r\n";
        value.remove_prefix(std::min(value.find_first_not_of(kBlank), value.size()));
        value = value.substr(0, value.find_last_not_of(kBlank) + 1);
        response.headers[name] = value;
    }
    return size * count;
}

void set_method(CURL* curl, const HttpRequest& request, Upload& upload) {
    if (request.method == "HEAD") {
        curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
    } else if (request.method == "PUT" || (request.method == "POST" && !request.body.empty())) {
        curl_easy_setopt(curl, CURLOPT_UPLOAD, 1L);
        curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request.method.c_str());
        curl_easy_setopt(curl, CURLOPT_READFUNCTION, give_body);
        curl_easy_setopt(curl, CURLOPT_READDATA, &upload);
        curl_easy_setopt(curl, CURLOPT_SEEKFUNCTION, rewind_body);
        curl_easy_setopt(curl, CURLOPT_SEEKDATA, &upload);
        curl_easy_setopt(curl, CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    } else if (request.method == "POST") {
        curl_easy_setopt(curl, CURLOPT_POST, 1L);
        curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, 0L);
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, "");
    } else if (request.method != "GET") {
        curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request.method.c_str());
    }
}

bool is_passing(long status) {
    return status >= 500 || status == 408 || status == 429;
}

}  // namespace

std::string HttpResponse::header(const std::string& name) const {
    const auto at = headers.find(name);
    return at == headers.end() ? std::string() : at->second;
}

struct HttpClient::Pool {
    std::mutex mutex;
    std::vector<CURL*> idle;

    CURL* take() {
        {
            const std::lock_guard lock(mutex);
            if (!idle.empty()) {
                CURL* const curl = idle.back();
                idle.pop_back();
                return curl;
            }
        }
        CURL* const curl = curl_easy_init();
        if (curl == nullptr) {
            throw Error(ErrorCode::internal, "libcurl cannot be set up");
        }
        return curl;
    }
    void give(CURL* curl) {
        curl_easy_reset(curl);  // options go, the connection stays
        const std::lock_guard lock(mutex);
        idle.push_back(curl);
    }
};

HttpClient::HttpClient() : pool_(std::make_unique<Pool>()) {
    static const CURLcode ready = curl_global_init(CURL_GLOBAL_DEFAULT);
    if (ready != CURLE_OK) {
        throw Error(ErrorCode::internal, "libcurl cannot be set up");
    }
}

HttpClient::~HttpClient() {
    for (CURL* const curl : pool_->idle) {
        curl_easy_cleanup(curl);
    }
}

HttpResponse HttpClient::once(const HttpRequest& request) {
    const std::unique_ptr<CURL, std::function<void(CURL*)>> curl(pool_->take(),
                                                                 [this](CURL* used) { pool_->give(used); });
    HttpResponse response;
    Download download{&response, request.most};
    Upload upload{request.body, request.body};
    HeaderList headers;
    for (const auto& [name, value] : request.headers) {
        headers.add(fmt::format("{}: {}", name, value));
    }
    curl_easy_setopt(curl.get(), CURLOPT_URL, request.url.c_str());
    curl_easy_setopt(curl.get(), CURLOPT_HTTPHEADER, headers.list);
    curl_easy_setopt(curl.get(), CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl.get(), CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl.get(), CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(curl.get(), CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
    curl_easy_setopt(curl.get(), CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(curl.get(), CURLOPT_LOW_SPEED_TIME, kStalledSeconds);
    curl_easy_setopt(curl.get(), CURLOPT_FOLLOWLOCATION, request.follow ? 1L : 0L);
    curl_easy_setopt(curl.get(), CURLOPT_MAXREDIRS, 5L);
    curl_easy_setopt(curl.get(), CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(curl.get(), CURLOPT_WRITEDATA, &download);
    curl_easy_setopt(curl.get(), CURLOPT_HEADERFUNCTION, take_header);
    curl_easy_setopt(curl.get(), CURLOPT_HEADERDATA, &response);
    set_method(curl.get(), request, upload);
    const CURLcode code = curl_easy_perform(curl.get());
    if (code != CURLE_OK) {
        const bool too_much = code == CURLE_WRITE_ERROR;
        throw TransferError(too_much ? fmt::format("the answer is longer than {} bytes", request.most)
                                     : std::string(curl_easy_strerror(code)));
    }
    curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &response.status);
    return response;
}

HttpResponse HttpClient::send(const std::string& what, double patience,
                              const std::function<HttpRequest()>& make,
                              const std::function<std::string(const HttpResponse&)>& doubt) {
    const auto deadline = Clock::now() + std::chrono::duration<double>(patience);
    thread_local std::minstd_rand random{std::random_device{}()};
    auto pause = kFirstPause;
    for (int tries = 1;; ++tries) {
        std::string reason;
        try {
            HttpResponse response = once(make());
            response.tries = tries;
            if (is_passing(response.status)) {
                reason = fmt::format("HTTP {}", response.status);
            } else if (!doubt || (reason = doubt(response)).empty()) {
                return response;
            }
        } catch (const TransferError& error) {
            reason = error.what();
        }
        const std::chrono::milliseconds wait(
            std::uniform_int_distribution<int64_t>(pause.count() / 2, pause.count())(random));
        if (Clock::now() + wait > deadline) {
            throw Error(ErrorCode::io, fmt::format("{}: {} ({} tries)", what, reason, tries));
        }
        std::this_thread::sleep_for(wait);
        pause = std::min(2 * pause, kLongestPause);
    }
}

std::string percent_encode(std::string_view text, bool keep_slash) {
    std::string encoded;
    for (const char c : text) {
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                           c == '-' || c == '_' || c == '.' || c == '~' || (keep_slash && c == '/');
        encoded += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
    return encoded;
}

}  // namespace kaiju::zoo
