// HTTP requests through libcurl, tried again while there is hope.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"

namespace kaiju::zoo {

struct HttpRequest {
    std::string method = "GET";
    std::string url;
    std::vector<std::pair<std::string, std::string>> headers;
    Bytes body;
    uint64_t most = uint64_t{64} << 20;  ///< bytes of an answer that are taken
    bool follow = false;                 ///< redirections; never with credentials
};

struct HttpResponse {
    long status = 0;
    std::map<std::string, std::string> headers;  ///< by lower-case name
    std::vector<std::byte> body;
    int tries = 1;  ///< how often it was asked for

    [[nodiscard]] std::string header(const std::string& name) const;
};

/// A request that may be tried again: connection refused or broken, a body cut short, a time-out.
class TransferError : public std::exception {
  public:
    explicit TransferError(std::string message) : message_(std::move(message)) {}
    [[nodiscard]] const char* what() const noexcept override { return message_.c_str(); }

  private:
    std::string message_;
};

/// Thread-safe; connections are kept and used again.
class HttpClient {
  public:
    HttpClient();
    ~HttpClient();
    HttpClient(const HttpClient&) = delete;
    HttpClient& operator=(const HttpClient&) = delete;

    /// One try. Throws TransferError where no whole answer came.
    [[nodiscard]] HttpResponse once(const HttpRequest& request);

    /// Tries until an answer comes that is neither a failure of the server (5xx) nor a plea for time (408,
    /// 429), with pauses that double from a quarter of a second to eight seconds, for `patience` seconds;
    /// then throws io naming `what` and the last reason. `make` is called for every try, since signatures
    /// age; `doubt` may say why an answer is not to be trusted and the request be tried again (empty: it is
    /// fine).
    [[nodiscard]] HttpResponse send(const std::string& what, double patience,
                                    const std::function<HttpRequest()>& make,
                                    const std::function<std::string(const HttpResponse&)>& doubt = {});

  private:
    struct Pool;
    std::unique_ptr<Pool> pool_;
};

/// Percent-encodes all but unreserved characters; with `keep_slash` '/' stays too.
[[nodiscard]] std::string percent_encode(std::string_view text, bool keep_slash);

}  // namespace kaiju::zoo
