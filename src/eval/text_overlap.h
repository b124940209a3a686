// Whether two texts share passages, from a small sketch of one of them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "format/calibration.h"

namespace kaiju::eval {

/// A passage: so many bytes in a row, white space left out. A sentence, roughly; shorter ones are common to
/// texts that have nothing to do with one another.
inline constexpr size_t kWindowBytes = 48;
using format::kMaxWindowHashes;

/// Sketch of a text: XXH3-64 of every window of kWindowBytes bytes after all white space was taken out,
/// without repetitions, ascending; of more than kMaxWindowHashes the smallest are kept (bottom-k sketch,
/// Broder 1997). So content alone says which windows are sampled: the same ones in any text that has them,
/// wherever its lines break and wherever it begins. Lines as the unit (the first form) missed every text that
/// had been wrapped anew; words as the unit know nothing of languages that are written without spaces.
[[nodiscard]] std::vector<uint64_t> window_hashes(std::string_view text);

struct TextOverlap {
    uint64_t compared = 0;  ///< different windows of the text that the sketch could know
    uint64_t shared = 0;    ///< of those, the windows it has

    /// Estimated share of the text that is in the sketched text too, 0..1. Nothing where too few windows
    /// could be compared to say that there is none.
    [[nodiscard]] std::optional<double> share() const;
    /// From one window in a hundred on, and two at least: headings, licences and names repeat.
    [[nodiscard]] bool is_suspicious() const { return shared >= 2 && shared * 100 >= compared; }
};

/// Compares a text with the sketch of another. A full sketch knows only hashes up to its largest; the windows
/// below that are a fair sample, since hashes are uniform.
[[nodiscard]] TextOverlap overlap_with(std::string_view text, std::span<const uint64_t> sketch);

}  // namespace kaiju::eval
