#include "format/qspec.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "format/stock_types.h"
#include "format/strict_json.h"

namespace kaiju::format {

using nlohmann::json;
using nlohmann::ordered_json;

namespace {

constexpr uint64_t kLimit = uint64_t{16} << 20;  // bytes of a qspec
constexpr uint64_t kMaxToken = INT32_MAX;        // llama.cpp's token ids are signed 32-bit numbers
constexpr size_t kMaxKey = 1024;

[[noreturn]] void refuse(std::string message) {
    throw Error(ErrorCode::bad_input, std::move(message));
}

bool is_lower_alnum(char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

uint32_t as_token(uint64_t value, std::string_view what) {
    if (value > kMaxToken) {
        refuse(fmt::format("{}: {} is no token id", what, value));
    }
    return static_cast<uint32_t>(value);
}

/// A key of an object store: relative, without empty, "." or ".." parts, so that it may become a path.
std::optional<std::string> find_key(const json& object, std::string_view name) {
    std::optional<std::string> key = find_text(object, name);
    if (!key) {
        return key;
    }
    bool sound = is_plain_name(*key, kMaxKey);
    for (size_t begin = 0; sound && begin <= key->size();) {
        const size_t end = std::min(key->find('/', begin), key->size());
        const std::string part = key->substr(begin, end - begin);
        sound = !part.empty() && part != "." && part != "..";
        begin = end + 1;
    }
    if (!sound) {
        refuse(fmt::format("\"{}\": '{}' is no object-store key", name, printable(*key)));
    }
    return key;
}

std::optional<QspecSource> find_source(const json& object) {
    const auto at = object.find("source");
    if (at == object.end() || at->is_null()) {
        return std::nullopt;
    }
    if (!at->is_object()) {
        refuse("\"source\" is not an object");
    }
    return within("\"source\"", [&] {
        QspecSource source;
        source.kind = find_text(*at, "kind").value_or("");
        source.ref = find_text(*at, "ref").value_or("");
        source.sha256 = find_text(*at, "sha256").value_or("");
        const bool hex = std::all_of(source.sha256.begin(), source.sha256.end(),
                                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
        if (!source.sha256.empty() && (source.sha256.size() != 64 || !hex)) {
            refuse("\"sha256\" is not 64 lower-case hex digits");
        }
        return source;
    });
}

std::vector<uint32_t> get_tokens(const json& object) {
    const auto at = object.find("prompt_tokens");
    if (at == object.end() || !at->is_array() || at->empty()) {
        refuse("\"prompt_tokens\" is not a list of token ids");
    }
    std::vector<uint32_t> tokens;
    for (const json& item : *at) {
        const std::string what = fmt::format("\"prompt_tokens\"[{}]", tokens.size());
        tokens.push_back(as_token(as_unsigned(item, what), what));
    }
    return tokens;
}

}  // namespace

bool is_model_id(std::string_view id) {
    return !id.empty() && id.size() <= 64 && is_lower_alnum(id[0]) &&
           std::all_of(id.begin(), id.end(),
                       [](char c) { return is_lower_alnum(c) || c == '.' || c == '_' || c == '-'; });
}

Qspec parse_qspec(std::string_view text) {
    const json object = parse_strict_json(text);
    if (!object.is_object()) {
        refuse("not a JSON object");
    }
    Qspec qspec;
    qspec.id = get_text(object, "id");
    if (!is_model_id(qspec.id)) {
        refuse(fmt::format("\"id\": '{}' is not [a-z0-9][a-z0-9._-]{{0,63}}", printable(qspec.id)));
    }
    qspec.family = find_text(object, "family").value_or("");
    qspec.modality = find_text(object, "modality").value_or("text");
    qspec.prompt = find_text(object, "prompt").value_or("");
    qspec.prompt_tokens = get_tokens(object);
    qspec.expect_token = as_token(get_unsigned(object, "expect_token"), "\"expect_token\"");
    qspec.reject_token = as_token(get_unsigned(object, "reject_token"), "\"reject_token\"");
    qspec.tokenizer = find_text(object, "tokenizer");
    qspec.f16 = find_key(object, "f16");
    qspec.knot = find_key(object, "knot");
    qspec.imatrix = find_key(object, "imatrix");
    qspec.source = find_source(object);
    return qspec;
}

Qspec read_qspec(const std::filesystem::path& path) {
    return within(path.string(), [&] {
        const MappedFile file(path);
        if (file.bytes().size() > kLimit) {
            refuse(fmt::format("{} bytes, a qspec has at most {}", file.bytes().size(), kLimit));
        }
        return parse_qspec(as_text(file.bytes()));
    });
}

std::string to_json_text(const Qspec& qspec) {
    ordered_json object = {{"id", qspec.id},
                           {"family", qspec.family},
                           {"modality", qspec.modality},
                           {"prompt", qspec.prompt},
                           {"prompt_tokens", qspec.prompt_tokens},
                           {"expect_token", qspec.expect_token},
                           {"reject_token", qspec.reject_token}};
    const std::pair<const char*, const std::optional<std::string>*> optional[] = {
        {"tokenizer", &qspec.tokenizer},
        {"f16", &qspec.f16},
        {"knot", &qspec.knot},
        {"imatrix", &qspec.imatrix}};
    for (const auto& [name, value] : optional) {
        if (*value) {
            object[name] = **value;
        }
    }
    if (qspec.source) {
        object["source"] = {
            {"kind", qspec.source->kind}, {"ref", qspec.source->ref}, {"sha256", qspec.source->sha256}};
    }
    // A prompt from a command line need not be UTF-8; it is informative, so what JSON cannot hold is
    // replaced.
    return object.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

void check_gate_ready(const Qspec& qspec, uint64_t vocabulary) {
    const std::string why = [&]() -> std::string {
        if (qspec.modality != "text") {
            return fmt::format("its modality is '{}', not text", printable(qspec.modality));
        }
        if (qspec.prompt_tokens == std::vector<uint32_t>{1} && qspec.expect_token == 1) {
            return "it is the sentinel of a gateway (prompt [1], expecting 1), not a model's answer";
        }
        if (qspec.expect_token == qspec.reject_token) {
            return fmt::format("expect_token and reject_token are both {}", qspec.expect_token);
        }
        std::vector<uint32_t> tokens = qspec.prompt_tokens;
        tokens.push_back(qspec.expect_token);
        tokens.push_back(qspec.reject_token);
        const uint32_t largest = *std::max_element(tokens.begin(), tokens.end());
        if (largest >= vocabulary) {
            return fmt::format("token {} is outside the model's vocabulary of {}", largest, vocabulary);
        }
        return {};
    }();
    if (!why.empty()) {
        refuse(fmt::format("qspec {}: {}", qspec.id, why));
    }
}

}  // namespace kaiju::format
