// The decoders behind make_decoder.
#pragma once

#include <memory>

#include "lattice/decoder.h"
#include "lattice/simd.h"

namespace kaiju::lattice {

/// Every coset, every coordinate, no bound and no shared work: the reference that the others are tested
/// against.
[[nodiscard]] std::unique_ptr<Decoder> make_exhaustive_decoder();

/// Branch and bound over the code words: the 16 (half, octet class) pairs in the order of their bounds, then
/// pairs of octets, then signs; parity is looked at only where a word could win.
[[nodiscard]] std::unique_ptr<Decoder> make_pruned_decoder();

/// Lower bounds on all classes of many points at once, then an exact search of the classes that can win
/// (docs/leech-decoder.md). `simd` must be one of available_simd().
[[nodiscard]] std::unique_ptr<Decoder> make_fast_decoder(Simd simd);

/// What the fast decoder does for a set of points.
struct FastWork {
    double classes_per_point = 0;  ///< (half, class) pairs, of 16, that were searched exactly
    double operations_per_point =
        0;  ///< arithmetic and logic operations on one lane; loads and stores not counted
};

/// Decodes y (24 values per point) and counts.
[[nodiscard]] FastWork count_fast_work(std::span<const float> y);

}  // namespace kaiju::lattice
