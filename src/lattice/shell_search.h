// Near code words of a shell-shaped code book, 16 points at a time.
#pragma once

#include <array>
#include <cstdint>

#include "lattice/shell_book.h"
#include "lattice/simd.h"

namespace kaiju::lattice {

/// Points that are searched together: value i of point p lies at 16 i + p.
inline constexpr size_t kShellLanes = 16;

/// Where a block may have one of several steps: one that would have to be shrunk by more than this to come
/// inside the book waits for a longer step.
inline constexpr float kLeastScale = 0.9F;

/// A point of a book, m + 2 c_i + 4 z_i, and its squared distance to what was asked for.
struct ShellPoint {
    std::array<int8_t, kDimension> x{};
    uint16_t word = 0;  ///< index of c
    uint8_t m = 0;
    float d2 = 0;
};

/// The entry point of one instruction set.
struct ShellKernels {
    Simd simd;  ///< what it was compiled for
    /// Of 16 points and each of the 16 (half m, octet class t), at keys[(8 m + t) * 16 + point], the nearest
    /// point of all m + 2 c + 4 z: its squared distance / 16 in units of 2^-19, times 2^9, plus which word it
    /// is (see word_of in the source). Integers throughout, so all instruction sets agree.
    void (*classes)(const float* y, int32_t* keys);
};

[[nodiscard]] const ShellKernels& shell_kernels(Simd simd);

/// Searches one book. Where the nearest of all points m + 2 c + 4 z is in the book it is the answer, exactly.
/// Where it is not, the nearest points of all to y shrunk towards the origin are tried, which is what
/// Lagrange's multiplier makes of a limit on the norm; of each of the 16 classes of cosets the best, since
/// the very best one is often just outside. What that leaves to an exhaustive search: docs/kaiju4-design.md.
/// Immutable: one may serve many threads; answers depend neither on the other points nor on the instruction
/// set.
class ShellSearch {
  public:
    explicit ShellSearch(const ShellBook& book);
    ShellSearch(const ShellBook& book, Simd simd);

    /// Up to `keep` different code words near each of those of 16 points y (24 x 16 values, in steps) whose
    /// bit in `asked` is set, nearest first: found[p] of them at out[keep * p]. A point that is outside the
    /// book, and that would have to be shrunk below `least_scale` to come inside, has none; with 0 every
    /// point has one. Returns the points whose nearest of all is in the book, a bit each.
    uint32_t near(const float* y, uint32_t asked, float least_scale, size_t keep, ShellPoint* out,
                  std::array<uint8_t, kShellLanes>& found) const;

    [[nodiscard]] const ShellBook& book() const { return book_; }

  private:
    struct Choices;
    struct Lane;
    /// Tries the classes of one point by ascending key.
    void take(const float* y, const float* aim, const int32_t* keys, bool whole, Lane& lane) const;

    const ShellBook& book_;
    const ShellKernels& kernels_;
    float largest_norm_ = 0;  ///< mean squared norm of the code words of the longest legal sequence
};

}  // namespace kaiju::lattice
