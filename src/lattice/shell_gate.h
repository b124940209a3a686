// What a shell-shaped code book leaves of a Gaussian source, and how near its search comes to the best word.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/monitor.h"
#include "lattice/shell_search.h"

namespace kaiju::lattice {

inline constexpr size_t kShellSteps = 4;  ///< step multipliers of a block

struct ShellDistortion {
    int index_bits = 0;
    double bits = 0;    ///< a coordinate, the choice of the step included: 1 + g / 4
    double step = 0;    ///< the best step found, over the source's deviation
    double mse = 0;     ///< per coordinate, over the variance
    double gap_db = 0;  ///< over the bound 4^-bits
    double inside = 0;  ///< part of the searches whose nearest point was in the book
    double exhaustive_mse =
        0;  ///< of the first `exhaustive` blocks, searched exhaustively at every step; 0: none
    double searched_mse = 0;  ///< of the same blocks, as searched
};

struct ShellGateOptions {
    size_t blocks = 10000;
    size_t exhaustive = 0;
    uint64_t seed = 1;
    int threads = 1;
    double ratio = 1.15;  ///< of a step to the next
};

/// Encodes blocks of a Gaussian of variance 1 as the wire does, a step of four and a code word each, at the
/// best step (a golden-section search). Deterministic for any number of threads.
[[nodiscard]] ShellDistortion shell_distortion(int index_bits, const ShellGateOptions& options,
                                               Monitor& monitor);

/// Squared distance from y (24 values, in steps) to the nearest code word of the book, by trying every Golay
/// word and half with every legal ring sequence, words by ascending distance of their cosets.
[[nodiscard]] float exhaustive_distance(const ShellBook& book, std::span<const float> y);

}  // namespace kaiju::lattice
