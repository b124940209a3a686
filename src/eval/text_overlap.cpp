#include "eval/text_overlap.h"

#include <algorithm>
#include <string>

#include "base/bytes.h"
#include "base/checksum.h"

namespace kaiju::eval {

namespace {

bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

/// Runs of blanks made one space, none at the ends.
void normalise(std::string_view line, std::string& out) {
    out.clear();
    for (const char c : line) {
        if (!is_blank(c)) {
            out += c;
        } else if (!out.empty() && out.back() != ' ') {
            out += ' ';
        }
    }
    if (!out.empty() && out.back() == ' ') {
        out.pop_back();
    }
}

std::vector<uint64_t> all_line_hashes(std::string_view text) {
    std::vector<uint64_t> hashes;
    std::string line;
    while (!text.empty()) {
        const size_t end = std::min(text.find('\n'), text.size());
        normalise(text.substr(0, end), line);
        if (line.size() >= kMinLineBytes) {
            hashes.push_back(xxh3(std::as_bytes(std::span(line))));
        }
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    std::ranges::sort(hashes);
    hashes.erase(std::unique(hashes.begin(), hashes.end()), hashes.end());
    return hashes;
}

}  // namespace

std::vector<uint64_t> line_hashes(std::string_view text) {
    std::vector<uint64_t> hashes = all_line_hashes(text);
    hashes.resize(std::min(hashes.size(), kMaxLineHashes));
    return hashes;
}

TextOverlap overlap_with(std::string_view text, std::span<const uint64_t> sketch) {
    TextOverlap overlap;
    if (sketch.empty()) {
        return overlap;
    }
    std::vector<uint64_t> known(sketch.begin(), sketch.end());
    std::ranges::sort(known);
    const bool full = known.size() >= kMaxLineHashes;
    for (const uint64_t hash : all_line_hashes(text)) {
        if (!full || hash <= known.back()) {
            ++overlap.compared;
            overlap.shared += std::ranges::binary_search(known, hash) ? 1 : 0;
        }
    }
    return overlap;
}

}  // namespace kaiju::eval
