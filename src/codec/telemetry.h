// What encoding a tensor cost, in numbers.
#pragma once

#include <array>
#include <cstdint>

#include "codec/kaiju1.h"

namespace kaiju::codec {

/// Sums over the rows of one tensor that were encoded. Rows may be added in any order from several threads
/// into separate objects; per-row sums are added in row order afterwards, so that totals do not depend on
/// scheduling.
struct EncodeStats {
    double diagonal_excess = 0;  ///< Σ h_i ΔW_i², h the importance (mean square of input i)
    double diagonal_energy = 0;  ///< Σ h_i W_i², what the excess is relative to
    double full_excess = 0;  ///< Σ ΔW'Ŝ ΔW over rows, Ŝ the covariance of the inputs; 0 where none was given
    double full_energy = 0;  ///< Σ W'Ŝ W
    uint64_t blocks = 0;
    uint64_t clamped_blocks = 0;  ///< blocks with at least one clamped trit
    uint64_t clamped_trits = 0;   ///< trits whose own nearest z, in the coset chosen, lies outside -1..1
    std::array<uint64_t, kaiju1::kMultipliers> multipliers{};  ///< how often each was chosen

    // What v1 makes of a sample of the rows, for v3 to be compared with.
    double legacy_full_excess = 0;
    double legacy_full_energy = 0;
    double sample_full_excess = 0;  ///< v3's own, of the same rows
    uint64_t legacy_blocks = 0;
    uint64_t legacy_clamped_blocks = 0;

    /// Part of the blocks with a clamped trit over that of v1; 0 where there is nothing to compare with.
    [[nodiscard]] double clamp_ratio() const;
    /// Full excess over that of v1 on the rows of the sample; 0 where there is nothing to compare with.
    [[nodiscard]] double excess_ratio() const;

    EncodeStats& operator+=(const EncodeStats& other);
};

}  // namespace kaiju::codec
