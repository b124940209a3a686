// Near code words of a shell-shaped code book.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "lattice/shell_book.h"
#include "lattice/shell_kernels.h"

namespace kaiju::lattice {

/// Where a block may have one of several steps: one that would have to be shrunk by more than this to come
/// inside the book waits for a longer step.
inline constexpr float kLeastScale = 0.9F;

/// What is asked for, in steps.
using ShellTarget = std::array<float, kDimension>;

/// A point of a book, m + 2 c_i + 4 z_i, and its squared distance to what was asked for.
struct ShellPoint {
    std::array<int8_t, kDimension> x{};
    uint16_t word = 0;  ///< index of c
    uint8_t m = 0;
    float d2 = 0;
};

/// What a search has of one target.
struct ShellFound {
    uint8_t count = 0;    ///< code words
    bool inside = false;  ///< the nearest of all m + 2 c + 4 z is in the book, and so the first of them
};

/// Searches one book. Where the nearest of all points m + 2 c + 4 z is in the book it is the answer, exactly.
/// Where it is not, the nearest points of all to y shrunk towards the origin are tried, which is what
/// Lagrange's multiplier makes of a limit on the norm; of each of the 16 classes of cosets the best, since
/// the very best one is often just outside. What that leaves to an exhaustive search: docs/kaiju4-design.md.
/// Immutable: one may serve many threads; answers depend neither on the other targets nor on the instruction
/// set.
class ShellSearch {
  public:
    explicit ShellSearch(const ShellBook& book);
    ShellSearch(const ShellBook& book, Simd simd);

    /// Up to `keep` different code words near each target, nearest first: found[p].count of them at
    /// out[keep * p]. A target that is outside the book, and that would have to be shrunk below `least_scale`
    /// to come inside, has none; with 0 every one has. The more targets at once, the faster: 16 are worked on
    /// together, and those that need longer than others fill the places up.
    void near(std::span<const ShellTarget> targets, float least_scale, size_t keep, std::span<ShellPoint> out,
              std::span<ShellFound> found) const;

    [[nodiscard]] const ShellBook& book() const { return book_; }

  private:
    struct Lane;
    struct Batch;
    /// Tries the classes of one of 16 targets by ascending key.
    void take(const Batch& batch, size_t place, bool whole, Lane& lane) const;

    const ShellBook& book_;
    const ShellKernels& kernels_;
    ShellRange range_;
    float largest_norm_ = 0;  ///< mean squared norm of the code words of the longest legal sequence
};

}  // namespace kaiju::lattice
