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

}  // namespace kaiju::lattice
