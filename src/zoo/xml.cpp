#include "zoo/xml.h"

#include <fmt/format.h>

#include <charconv>
#include <vector>

#include "base/error.h"

namespace kaiju::zoo {

namespace {

constexpr size_t kDeepest = 32;

[[noreturn]] void refuse(std::string_view why) {
    throw Error(ErrorCode::bad_input, fmt::format("not the XML of an object store: {}", why));
}

void append_utf8(std::string& text, uint32_t code) {
    const auto add = [&](uint32_t byte) { text += static_cast<char>(byte); };
    if (code < 0x80) {
        add(code);
    } else if (code < 0x800) {
        add(0xC0U | code >> 6U);
        add(0x80U | (code & 0x3FU));
    } else if (code < 0x10000) {
        add(0xE0U | code >> 12U);
        add(0x80U | (code >> 6U & 0x3FU));
        add(0x80U | (code & 0x3FU));
    } else {
        refuse("a character reference out of range");
    }
}

std::string resolved(std::string_view raw) {
    std::string text;
    while (!raw.empty()) {
        const size_t at = raw.find('&');
        text += raw.substr(0, at);
        if (at == std::string_view::npos) {
            break;
        }
        const size_t end = raw.find(';', at);
        if (end == std::string_view::npos) {
            refuse("an entity without end");
        }
        const std::string_view name = raw.substr(at + 1, end - at - 1);
        if (name == "amp") {
            text += '&';
        } else if (name == "lt") {
            text += '<';
        } else if (name == "gt") {
            text += '>';
        } else if (name == "quot") {
            text += '"';
        } else if (name == "apos") {
            text += '\'';
        } else if (name.starts_with("#")) {
            const bool is_hex = name.starts_with("#x");
            const std::string_view digits = name.substr(is_hex ? 2 : 1);
            uint32_t code = 0;
            const auto [stop, error] =
                std::from_chars(digits.data(), digits.data() + digits.size(), code, is_hex ? 16 : 10);
            if (error != std::errc() || stop != digits.data() + digits.size() || digits.empty()) {
                refuse("a malformed character reference");
            }
            append_utf8(text, code);
        } else {
            refuse("an unknown entity");
        }
        raw.remove_prefix(end + 1);
    }
    return text;
}

std::string_view local_name(std::string_view tag) {
    tag = tag.substr(0, tag.find_first_of(" \t\r\n/"));
    const size_t colon = tag.find(':');
    return colon == std::string_view::npos ? tag : tag.substr(colon + 1);
}

}  // namespace

void walk_xml(std::string_view xml,
              const std::function<void(const std::string&, const std::string&)>& visit) {
    struct Open {
        size_t path_length;
        std::string text;
    };
    std::vector<Open> open;
    std::string path;
    bool seen = false;
    const auto close = [&](std::string_view name) {
        if (open.empty() ||
            path.substr(open.back().path_length == 0 ? 0 : open.back().path_length + 1) != name) {
            refuse("elements that do not nest");
        }
        visit(path, open.back().text);
        path.resize(open.back().path_length);
        open.pop_back();
    };
    while (!xml.empty()) {
        const size_t less = xml.find('<');
        if (!open.empty()) {
            open.back().text += resolved(xml.substr(0, less));
        }
        if (less == std::string_view::npos) {
            break;
        }
        xml.remove_prefix(less + 1);
        if (xml.starts_with("!--")) {
            const size_t end = xml.find("-->");
            if (end == std::string_view::npos) {
                refuse("a comment without end");
            }
            xml.remove_prefix(end + 3);
            continue;
        }
        const size_t end = xml.find('>');
        if (end == std::string_view::npos) {
            refuse("cut short");
        }
        const std::string_view tag = xml.substr(0, end);
        xml.remove_prefix(end + 1);
        if (tag.starts_with("?")) {
            continue;
        }
        if (tag.starts_with("!")) {
            refuse("a document type");
        }
        if (tag.starts_with("/")) {
            close(local_name(tag.substr(1)));
            continue;
        }
        const std::string_view name = local_name(tag);
        if (name.empty() || open.size() == kDeepest) {
            refuse(name.empty() ? "an element without name" : "nested too deep");
        }
        open.push_back({path.size(), {}});
        path.append(path.empty() ? "" : "/").append(name);
        seen = true;
        if (tag.ends_with("/")) {
            close(name);
        }
    }
    if (!open.empty() || !seen) {
        refuse("cut short");
    }
}

std::string xml_text(std::string_view xml, std::string_view path) {
    std::string found;
    bool done = false;
    try {
        walk_xml(xml, [&](const std::string& at, const std::string& text) {
            if (!done && at == path) {
                found = text;
                done = true;
            }
        });
    } catch (const Error&) {
        return done ? found : std::string();
    }
    return found;
}

}  // namespace kaiju::zoo
