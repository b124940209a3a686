#include "zoo/credentials.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <initializer_list>

#include "base/error.h"
#include "base/file.h"

namespace kaiju::zoo {

namespace {

constexpr uint64_t kLongestFile = uint64_t{1} << 20;

std::string variable(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? std::string() : std::string(value);
}

std::string first_of(std::initializer_list<std::string> values) {
    for (const std::string& value : values) {
        if (!value.empty()) {
            return value;
        }
    }
    return {};
}

std::string_view trimmed(std::string_view text) {
    constexpr std::string_view kBlank = " \t\r";
    const size_t begin = text.find_first_not_of(kBlank);
    return begin == std::string_view::npos ? std::string_view()
                                           : text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

std::string file_text(const char* override_name, const char* name) {
    const std::string given = variable(override_name);
    const std::string home = variable("HOME");
    if (given.empty() && home.empty()) {
        return {};
    }
    const std::filesystem::path path =
        given.empty() ? std::filesystem::path(home) / ".aws" / name : std::filesystem::path(given);
    std::error_code ignored;
    return std::filesystem::is_regular_file(path, ignored) ? read_text(path, kLongestFile) : std::string();
}

}  // namespace

std::optional<std::string> ini_value(std::string_view text, std::string_view section, std::string_view key) {
    std::string current;
    std::string parent;
    while (!text.empty()) {
        const size_t end = text.find('\n');
        const std::string_view raw = text.substr(0, end);
        text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
        const std::string_view line = trimmed(raw);
        if (line.empty() || line.front() == '#' || line.front() == ';') {
            continue;
        }
        if (line.front() == '[' && line.back() == ']') {
            current = trimmed(line.substr(1, line.size() - 2));
            parent.clear();
            continue;
        }
        const size_t equals = line.find('=');
        if (equals == std::string_view::npos || current != section) {
            continue;
        }
        const bool nested = raw.front() == ' ' || raw.front() == '\t';
        const std::string name(trimmed(line.substr(0, equals)));
        const std::string_view value = trimmed(line.substr(equals + 1));
        if (!nested) {
            parent = value.empty() ? name : std::string();
        }
        std::string path = nested && !parent.empty() ? parent : std::string();
        path.append(path.empty() ? "" : ".").append(name);
        if (path == key) {
            return std::string(value);
        }
    }
    return std::nullopt;
}

S3Settings load_s3_settings() {
    const std::string profile = first_of({variable("AWS_PROFILE"), "default"});
    const std::string secrets = file_text("AWS_SHARED_CREDENTIALS_FILE", "credentials");
    const std::string config = file_text("AWS_CONFIG_FILE", "config");
    const auto configured = [&](std::string_view key) {
        const std::string section = profile == "default" ? profile : "profile " + profile;
        return ini_value(config, section, key).value_or("");
    };
    const auto secret = [&](std::string_view key) {
        return first_of({ini_value(secrets, profile, key).value_or(""), configured(key)});
    };
    S3Settings settings;
    Credentials found{variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY"),
                      variable("AWS_SESSION_TOKEN")};
    if (found.access_key.empty() && found.secret_key.empty()) {
        found = {secret("aws_access_key_id"), secret("aws_secret_access_key"), secret("aws_session_token")};
    }
    if (found.access_key.empty() != found.secret_key.empty()) {
        throw Error(ErrorCode::usage,
                    "half a pair of S3 credentials: set both AWS_ACCESS_KEY_ID and "
                    "AWS_SECRET_ACCESS_KEY, or neither");
    }
    if (!found.access_key.empty()) {
        settings.credentials = found;
    }
    settings.endpoint = first_of({variable("AWS_ENDPOINT_URL_S3"), variable("AWS_ENDPOINT_URL"),
                                  configured("s3.endpoint_url"), configured("endpoint_url")});
    settings.region =
        first_of({variable("AWS_REGION"), variable("AWS_DEFAULT_REGION"), configured("region"), "us-east-1"});
    if (const std::string style = configured("s3.addressing_style"); style == "path" || style == "virtual") {
        settings.virtual_host = style == "virtual";
    }
    return settings;
}

}  // namespace kaiju::zoo
