// Two lattices to compare Λ24 with: E8 and Z.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace kaiju::lattice {

inline constexpr size_t kE8Dimension = 8;

/// A nearest point of E8 in doubled coordinates (all even or all odd, sum divisible by 4; minimal squared
/// norm 8, covolume 2^8).
struct NearestE8 {
    std::array<int32_t, kE8Dimension> x;
    double d2 = 0;  ///< exact squared distance, in doubled coordinates, to the input as rounded to the grid
};

/// Nearest points of E8 of n = out.size() points, y holding 8 n values in doubled coordinates. Inputs are
/// rounded to multiples of 2^-16 (half to even); ties go to the even half, then, for a coordinate exactly
/// between two values, to the smaller, and for the parity repair to the smallest coordinate. |y| <= 2^20 and
/// finite, else Error(bad_input) naming the point and the coordinate. Conway and Sloane, Fast quantizing and
/// decoding algorithms (1982): E8 is D8 and a translate of it, so two roundings with a parity repair suffice.
void nearest_e8(std::span<const float> y, std::span<NearestE8> out);

/// Nearest integers, the smaller of two equally near; the same rounding, range and errors.
void nearest_z(std::span<const float> y, std::span<int32_t> out);

}  // namespace kaiju::lattice
