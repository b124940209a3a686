// Where credentials and endpoints of S3 come from: the usual environment variables and files. They stay in
// memory: never in logs, arguments of processes, telemetry or reports.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace kaiju::zoo {

struct Credentials {
    std::string access_key;
    std::string secret_key;
    std::string session_token;  ///< empty for permanent ones
};

struct S3Settings {
    std::optional<Credentials> credentials;  ///< nothing: requests are not signed
    std::string endpoint;                    ///< empty: Amazon's
    std::string region;
    std::optional<bool> virtual_host;
};

/// From AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION, AWS_DEFAULT_REGION,
/// AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL and, where those are not set, the profile AWS_PROFILE (default
/// "default") of AWS_SHARED_CREDENTIALS_FILE (~/.aws/credentials) and AWS_CONFIG_FILE (~/.aws/config: region,
/// endpoint_url, s3 addressing_style). Throws usage for half a pair of keys, bad_input for files that cannot
/// be read as such.
[[nodiscard]] S3Settings load_s3_settings();

/// One value of an INI text; nothing where section or key is missing. Values indented below "s3 =" are
/// "s3.KEY".
[[nodiscard]] std::optional<std::string> ini_value(std::string_view text, std::string_view section,
                                                   std::string_view key);

}  // namespace kaiju::zoo
