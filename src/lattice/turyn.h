// The Golay code as octet classes joined by pairs: what the pruned and the batched decoder walk along.
//
// Complementing an octet of a word gives a word, so a word is a class t (one of 8), two of its 8
// complementary pairs for the first two octets (the third pair follows), and three signs: 8 x 8 x 8 x 8 =
// 4096.
#pragma once

#include <array>
#include <cstdint>

#include "lattice/golay.h"

namespace kaiju::lattice {

inline constexpr size_t kClasses = 8;  ///< octet classes, cosets of H in the even-weight octets
inline constexpr size_t kPairs = 8;    ///< complementary pairs in a class

/// One word of each class (octet o = byte o) to which the pairs of H are added. In the first two octets it is
/// the smallest octet of the class, so that ranks in the class are ranks in H; then the third cannot be as
/// well, since the three must lie in the code together: it is the element of T.
inline constexpr std::array<uint32_t, kClasses> kClassWord = [] {
    std::array<uint32_t, kClasses> words{};
    for (size_t t = 0; t < kClasses; ++t) {
        uint32_t octet = 0;
        for (size_t bit = 0; bit < 3; ++bit) {
            octet ^= (t >> bit & 1) != 0 ? kOctetT[bit] : 0;
        }
        const uint32_t third = octet;
        octet ^= (octet & 0x80) != 0 ? 0xFFU : 0U;
        octet ^= (octet & 0x40) != 0 ? 0x55U : 0U;
        octet ^= (octet & 0x20) != 0 ? 0x33U : 0U;
        octet ^= (octet & 0x08) != 0 ? 0x0FU : 0U;
        words[t] = octet | octet << 8 | third << 16;
    }
    return words;
}();

/// One member of each complementary pair of H, in Walsh order: bit i of kPairOctet[j] is the parity of i & j.
inline constexpr std::array<uint8_t, kPairs> kPairOctet = {0x00, 0xAA, 0xCC, 0x66, 0xF0, 0x5A, 0x3C, 0x96};

/// Rank, 0..15, of an octet in its class: the bits in which the words of H differ, highest first.
[[nodiscard]] constexpr uint32_t octet_rank(uint32_t octet) {
    return (octet >> 5 & 7) << 1 | (octet >> 3 & 1);
}

/// One member of pair j of class t in the given octet of the word; the other is its complement. In a word of
/// class t with pairs i and j in the first two octets, the third has pair i ^ j, and any of the three may be
/// complemented.
[[nodiscard]] constexpr uint32_t class_octet(size_t t, size_t octet, size_t j) {
    return (kClassWord[t] >> 8 * octet & 0xFF) ^ kPairOctet[j];
}

/// The word of class t, pairs i, j, i ^ j, with octet o complemented where bit o of `flips` is set.
[[nodiscard]] constexpr uint32_t turyn_word(size_t t, size_t i, size_t j, uint32_t flips) {
    const uint32_t a = class_octet(t, 0, i) ^ ((flips & 1) != 0 ? 0xFFU : 0U);
    const uint32_t b = class_octet(t, 1, j) ^ ((flips & 2) != 0 ? 0xFFU : 0U);
    const uint32_t c = class_octet(t, 2, i ^ j) ^ ((flips & 4) != 0 ? 0xFFU : 0U);
    return a | b << 8 | c << 16;
}

}  // namespace kaiju::lattice
