// The Leech lattice in Conway's integer coordinates: x_i = m + 2 c_i + 4 q_i, m in {0, 1}, c a Golay word,
// the q integers with sum(q) = m (mod 2). Minimal squared norm 32, covolume 8^12. docs/kaiju1.md, 3.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "lattice/decoder.h"

namespace kaiju::lattice {

/// Which of the 2 x 4096 cosets of 4 D24 (even half) or its odd translate holds a point.
struct Coset {
    uint8_t m = 0;      ///< half
    uint16_t word = 0;  ///< index of the code word
    friend bool operator==(const Coset&, const Coset&) = default;
};

/// The coset of a lattice point; nothing if x is not a point of Λ24. Any int32 values are allowed.
[[nodiscard]] std::optional<Coset> coset_of(std::span<const int32_t, kDimension> x);

[[nodiscard]] bool is_lattice_point(std::span<const int32_t, kDimension> x);

/// One unit of the input in steps of the search grid, 2^-16.
inline constexpr int32_t kGridUnit = 1 << 16;

/// A point on the search grid modulo 8 (8 Z^24 is a sublattice that keeps the coset and every tie): steps of
/// 2^-16, each in [-4, 4] units.
using GridPoint = std::span<const int32_t, kDimension>;

/// The nearest point to y inside one coset, by the tie rules of the search contract; fills x, word, m and d2.
/// O(24), exact.
void nearest_in_coset(GridPoint y, Coset coset, Nearest& out);

}  // namespace kaiju::lattice
