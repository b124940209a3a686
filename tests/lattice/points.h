// Points to decode, and a second, unhurried formulation of the search contract to judge decoders by.
#pragma once

#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "lattice/decoder.h"

namespace kaiju::test {

using Point = std::array<double, lattice::kDimension>;

/// The search contract as docs/kaiju1.md 3 and 6 word it, straight from the definition: both halves, all 4096
/// words, every coordinate by division with remainder in 64-bit integers, on the whole (unreduced) point.
/// Shares no code with the library, not even the table of words.
[[nodiscard]] lattice::Nearest nearest_by_definition(const Point& y);

/// Uniform in [-8, 8)^24: a fundamental region of the lattice many times over.
[[nodiscard]] std::vector<Point> uniform_points(size_t n, uint64_t seed);

/// Points that tie on purpose: zeros, lattice points, half-grid values, deep holes, points midway between two
/// lattice points, huge values, values one grid step and half a step apart.
[[nodiscard]] std::vector<Point> structured_points(size_t n, uint64_t seed);

/// All values of the points, for Decoder::nearest.
[[nodiscard]] std::vector<double> flatten(const std::vector<Point>& points);

/// A point or an answer in words, for messages.
[[nodiscard]] std::string describe(const Point& y);
[[nodiscard]] std::string describe(const lattice::Nearest& nearest);

}  // namespace kaiju::test
