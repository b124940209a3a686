#include "format/strict_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <unordered_set>
#include <vector>

#include "base/error.h"
#include "format/stock_types.h"

namespace kaiju::format {

using nlohmann::json;

namespace {

constexpr size_t kMaxDepth = 64;

[[noreturn]] void refuse(std::string message) {
    throw Error(ErrorCode::bad_input, std::move(message));
}

/// nlohmann's message without its own prefix "[json.exception.parse_error.101] ".
std::string reason(const json::exception& error) {
    const std::string_view text = error.what();
    const size_t bracket = text.find("] ");
    return printable(bracket == std::string_view::npos ? text : text.substr(bracket + 2));
}

const json* member(const json& object, std::string_view key) {
    const auto at = object.find(key);
    return at == object.end() || at->is_null() ? nullptr : &*at;
}

}  // namespace

json parse_strict_json(std::string_view text) {
    std::vector<std::unordered_set<std::string>> open;  // keys seen, one set per open object or array
    const json::parser_callback_t watch = [&](int /*depth*/, json::parse_event_t event, json& value) {
        switch (event) {
            case json::parse_event_t::object_start:
            case json::parse_event_t::array_start:
                open.emplace_back();
                if (open.size() > kMaxDepth) {
                    refuse(fmt::format("JSON nested deeper than {}", kMaxDepth));
                }
                break;
            case json::parse_event_t::object_end:
            case json::parse_event_t::array_end:
                open.pop_back();
                break;
            case json::parse_event_t::key:
                if (!open.back().insert(value.get_ref<const std::string&>()).second) {
                    refuse(fmt::format("key '{}' occurs twice in one JSON object",
                                       printable(value.get_ref<const std::string&>())));
                }
                break;
            case json::parse_event_t::value:
                break;
        }
        return true;
    };
    try {
        return json::parse(text, watch);
    } catch (const json::exception& error) {
        refuse(fmt::format("not valid JSON: {}", reason(error)));
    }
}

std::optional<std::string> find_text(const json& object, std::string_view key) {
    const json* value = member(object, key);
    if (value == nullptr) {
        return std::nullopt;
    }
    if (!value->is_string()) {
        refuse(fmt::format("\"{}\" is not a string", key));
    }
    return value->get<std::string>();
}

std::string get_text(const json& object, std::string_view key) {
    std::optional<std::string> text = find_text(object, key);
    if (!text) {
        refuse(fmt::format("\"{}\" is missing", key));
    }
    return *std::move(text);
}

uint64_t get_unsigned(const json& object, std::string_view key) {
    const json* value = member(object, key);
    if (value == nullptr) {
        refuse(fmt::format("\"{}\" is missing", key));
    }
    return as_unsigned(*value, fmt::format("\"{}\"", key));
}

uint64_t as_unsigned(const json& value, std::string_view what) {
    if (!value.is_number_integer() ||
        (value.is_number_integer() && !value.is_number_unsigned() && value.get<int64_t>() < 0)) {
        refuse(fmt::format("{} is not a non-negative integer", what));
    }
    return value.get<uint64_t>();
}

}  // namespace kaiju::format
