// The extended binary Golay code in the coordinates of docs/kaiju1.md, 2. Bit i of a word is coordinate i.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace kaiju::lattice {

inline constexpr size_t kGolayWords = 4096;

/// The two codes of length 8 that the octets are made of: kOctetH = span{0123, 0145, 0246, 01234567} and the
/// complement kOctetT = span{0125, 0137, 0236}; together they span the even-weight octets. The Golay code is
/// { (a+t, b+t, c+t) : a, b, c in H, t in T, a+b+c in {0, all ones} } (Turyn).
inline constexpr std::array<uint32_t, 4> kOctetH = {0x0F, 0x33, 0x55, 0xFF};
inline constexpr std::array<uint32_t, 3> kOctetT = {0x27, 0x8B, 0x4D};

namespace detail {

/// Reduced echelon basis, pivots = the highest set bit of each row, rows ascending: bit j of a word's index
/// selects row j, so the index is the word's rank among all words.
constexpr std::array<uint32_t, 12> golay_basis() {
    std::array<uint32_t, 12> rows{};
    size_t n = 0;
    for (const uint32_t t : kOctetT) {
        rows[n++] = t | t << 8 | t << 16;
    }
    for (const uint32_t h : kOctetH) {
        rows[n++] = h | h << 16;
        rows[n++] = h << 8 | h << 16;
    }
    rows[n++] = 0xFF0000;
    // Gauss-Jordan elimination; the code has dimension 12, so every row keeps a pivot.
    size_t done = 0;
    for (uint32_t bit = 1U << 23; bit != 0; bit >>= 1) {
        size_t pivot = done;
        while (pivot < rows.size() && (rows[pivot] & bit) == 0) {
            ++pivot;
        }
        if (pivot == rows.size()) {
            continue;
        }
        const uint32_t row = rows[pivot];
        rows[pivot] = rows[done];
        rows[done] = row;
        for (size_t i = 0; i < rows.size(); ++i) {
            if (i != done && (rows[i] & bit) != 0) {
                rows[i] ^= row;
            }
        }
        ++done;
    }
    std::array<uint32_t, 12> ascending{};
    for (size_t i = 0; i < rows.size(); ++i) {
        ascending[i] = rows[rows.size() - 1 - i];
    }
    return ascending;
}

inline constexpr std::array<uint32_t, 12> kGolayBasis = golay_basis();

constexpr std::array<uint32_t, kGolayWords> golay_words() {
    std::array<uint32_t, kGolayWords> words{};
    for (size_t index = 1; index < kGolayWords; ++index) {
        words[index] = words[index & (index - 1)] ^ kGolayBasis[static_cast<size_t>(std::countr_zero(index))];
    }
    return words;
}

}  // namespace detail

/// All words, ascending; the position is the word's index (cw_idx of the wire).
inline constexpr std::array<uint32_t, kGolayWords> kGolay = detail::golay_words();

/// The index of a word: its bits at the twelve pivots 0xFEE880. For other 24-bit values it is the index of
/// the only word that agrees at the pivots.
[[nodiscard]] constexpr uint32_t golay_index(uint32_t word) {
    return (word >> 7 & 1) | (word >> 11 & 1) << 1 | (word >> 13 & 7) << 2 | (word >> 17 & 0x7F) << 5;
}

[[nodiscard]] constexpr bool is_golay_word(uint32_t bits) {
    return bits == kGolay[golay_index(bits)];
}

}  // namespace kaiju::lattice
