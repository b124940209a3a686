// What the search of a shell-shaped code book does for 16 points at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "lattice/shell_book.h"
#include "lattice/simd.h"

namespace kaiju::lattice {

/// Points that are worked on together: value i of point p lies at 16 i + p.
inline constexpr size_t kShellLanes = 16;

/// Set in a key where a z is outside the range of the lists.
inline constexpr int32_t kShellOutside = 1 << 24;

/// The z that a book's lists have: least_z .. least_z + 2^z_bits - 1.
struct ShellRange {
    int least_z = 0;
    unsigned z_bits = 0;
};

/// What the groups of 16 points may be in one half. By group, for each pair of code bits of its first two
/// coordinates and, from 4 on, of its last two: the z nearest to the aim at their place in the key of
/// ShellBook::ring, kShellOutside where one is out of range, and the squared distance to the point itself.
struct ShellChoices {
    std::array<std::array<std::array<int32_t, kShellLanes>, 8>, kGroups> key;
    std::array<std::array<std::array<float, kShellLanes>, 8>, kGroups> d2;
};

/// The entry points of one instruction set. All give the same bits.
struct ShellKernels {
    Simd simd;  ///< what they were compiled for
    /// Of 16 points and each of the 16 (half m, octet class t), at keys[(8 m + t) * 16 + point], the nearest
    /// point of all m + 2 c + 4 z: its squared distance / 16 in units of 2^-19, times 2^9, plus which word it
    /// is (see word_of in shell_search.cpp). Integers throughout.
    void (*classes)(const float* y, int32_t* keys);
    /// Of 16 points y that aim at `aim`, out[m] of each half.
    void (*choices)(const float* y, const float* aim, const ShellRange& range, ShellChoices* out);
};

[[nodiscard]] const ShellKernels& shell_kernels(Simd simd);

}  // namespace kaiju::lattice
