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

namespace detail {

constexpr std::array<std::array<uint8_t, kPairs>, kClasses> octet_pairs() {
    std::array<std::array<uint8_t, kPairs>, kClasses> pairs{};
    for (size_t t = 0; t < kClasses; ++t) {
        for (size_t j = 0; j < kPairs; ++j) {
            uint32_t octet = 0;
            for (size_t bit = 0; bit < 3; ++bit) {
                octet ^= (t >> bit & 1) != 0 ? kOctetT[bit] : 0;
                octet ^= (j >> bit & 1) != 0 ? kOctetH[bit] : 0;
            }
            pairs[t][j] = static_cast<uint8_t>(octet);
        }
    }
    return pairs;
}

}  // namespace detail

/// kOctetPairs[t][j] is one member of pair j of class t, the other is its complement. In a word of class t
/// with pairs i and j in the first two octets, the third has pair i ^ j, and any of the three may be
/// complemented.
inline constexpr std::array<std::array<uint8_t, kPairs>, kClasses> kOctetPairs = detail::octet_pairs();

/// The word of class t, pairs i, j, i ^ j, with octet o complemented where bit o of `flips` is set.
[[nodiscard]] constexpr uint32_t turyn_word(size_t t, size_t i, size_t j, uint32_t flips) {
    const uint32_t a = kOctetPairs[t][i] ^ ((flips & 1) != 0 ? 0xFFU : 0U);
    const uint32_t b = kOctetPairs[t][j] ^ ((flips & 2) != 0 ? 0xFFU : 0U);
    const uint32_t c = kOctetPairs[t][i ^ j] ^ ((flips & 4) != 0 ? 0xFFU : 0U);
    return a | b << 8 | c << 16;
}

}  // namespace kaiju::lattice
