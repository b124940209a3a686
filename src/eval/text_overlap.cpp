#include "eval/text_overlap.h"

#include <algorithm>
#include <string>

#include "base/bytes.h"
#include "base/checksum.h"

namespace kaiju::eval {

namespace {

/// Of fewer windows, none shared says little: a text that shares a tenth would be missed one time in thirty.
constexpr uint64_t kFewestCompared = 32;

bool is_white(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

std::vector<uint64_t> all_window_hashes(std::string_view text) {
    std::string dense;
    dense.reserve(text.size());
    std::ranges::remove_copy_if(text, std::back_inserter(dense), is_white);
    std::vector<uint64_t> hashes;
    hashes.reserve(dense.size());
    for (size_t at = 0; at + kWindowBytes <= dense.size(); ++at) {
        hashes.push_back(xxh3(std::as_bytes(std::span(dense).subspan(at, kWindowBytes))));
    }
    std::ranges::sort(hashes);
    hashes.erase(std::unique(hashes.begin(), hashes.end()), hashes.end());
    return hashes;
}

}  // namespace

std::vector<uint64_t> window_hashes(std::string_view text) {
    std::vector<uint64_t> hashes = all_window_hashes(text);
    hashes.resize(std::min(hashes.size(), kMaxWindowHashes));
    return hashes;
}

std::optional<double> TextOverlap::share() const {
    if (compared < kFewestCompared && !is_suspicious()) {
        return std::nullopt;
    }
    return static_cast<double>(shared) / static_cast<double>(compared);
}

TextOverlap overlap_with(std::string_view text, std::span<const uint64_t> sketch) {
    TextOverlap overlap;
    if (sketch.empty()) {
        return overlap;
    }
    std::vector<uint64_t> known(sketch.begin(), sketch.end());
    std::ranges::sort(known);
    const bool full = known.size() >= kMaxWindowHashes;
    for (const uint64_t hash : all_window_hashes(text)) {
        if (!full || hash <= known.back()) {
            ++overlap.compared;
            overlap.shared += std::ranges::binary_search(known, hash) ? 1 : 0;
        }
    }
    return overlap;
}

}  // namespace kaiju::eval
