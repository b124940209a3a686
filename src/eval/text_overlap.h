// Whether two texts share lines, from a small sketch of one of them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace kaiju::eval {

/// Lines shorter than this (after normalising) are too common to tell texts apart.
inline constexpr size_t kMinLineBytes = 40;
/// Most hashes that a sketch keeps.
inline constexpr size_t kMaxLineHashes = 4096;

/// Sketch of a text: XXH3-64 of each line (runs of blanks made one, ends trimmed) of at least kMinLineBytes
/// bytes, without repetitions, ascending; of more than kMaxLineHashes the smallest are kept (bottom-k sketch,
/// Broder 1997).
[[nodiscard]] std::vector<uint64_t> line_hashes(std::string_view text);

struct TextOverlap {
    uint64_t compared = 0;  ///< different lines of the text that the sketch could know
    uint64_t shared = 0;    ///< of those, the lines it has
    /// Estimated share of the text's lines that are in the sketched text, 0..1.
    [[nodiscard]] double share() const {
        return compared == 0 ? 0 : static_cast<double>(shared) / static_cast<double>(compared);
    }
    /// From one line in a hundred on: licence texts and headings repeat, paragraphs do not.
    [[nodiscard]] bool is_suspicious() const { return shared > 0 && share() >= 0.01; }
};

/// Compares the lines of a text with the sketch of another. A full sketch knows only hashes up to its
/// largest; the lines below that are a fair sample, since hashes are uniform.
[[nodiscard]] TextOverlap overlap_with(std::string_view text, std::span<const uint64_t> sketch);

}  // namespace kaiju::eval
