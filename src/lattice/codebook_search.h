// The nearest legal code words of the KAIJU1 wire: the finite code book { s (m + 2 c_i + 4 z_i) }, m in {0,
// 1}, c a Golay word, z_i in {-1, 0, 1}, s = -1 if flip else 1 (docs/kaiju1.md, 4). Searching Λ24 and
// clamping afterwards is not the same thing: where clamping moves a coordinate, another coset is often
// nearer.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "lattice/decoder.h"
#include "lattice/simd.h"

namespace kaiju::lattice {

/// A legal code word and how far it is.
struct CodebookWord {
    std::array<int8_t, kDimension> z;  ///< -1, 0 or 1, before the flip
    uint16_t word = 0;                 ///< index of the Golay word
    uint8_t m = 0;
    bool flip = false;
    double d2 = 0;  ///< squared distance to the input as rounded to the grid; exact where |y| <= 256

    /// What a decoder makes of coordinate i: s (m + 2 c_i + 4 z_i).
    [[nodiscard]] int32_t value(size_t i) const;

    friend bool operator==(const CodebookWord&, const CodebookWord&) = default;
};

/// Which z are allowed.
enum class Parity {
    kept,  ///< sum(z) = m (mod 2): the code words that are points of Λ24
    free,  ///< any: the wire's decoder never checks
};

struct CodebookKernels;

/// How CodebookSearch::nearest searches. All give the same answers; the slower ones are oracles.
enum class CodebookMethod {
    fast,        ///< batched, in SIMD lanes
    pruned,      ///< branch and bound, a point at a time
    exhaustive,  ///< all 4 x 4096 cosets
};

/// "fast", "pruned" or "exhaustive", the names of the lattice's decoders; Error(usage) naming them for any
/// other.
[[nodiscard]] CodebookMethod codebook_method(std::string_view name);

/// Exact search over the finite code book. Inputs are in steps and rounded to multiples of 2^-16, half to
/// even; |y| <= 2^20 and finite, else Error(bad_input) naming the point and the coordinate. Order of
/// candidates: squared distance, then flip (no flip first), then m, then word; inside a code word's coset,
/// for a coordinate exactly between two values the smaller z, and for the parity repair the smallest
/// coordinate. Immutable: one may serve many threads.
class CodebookSearch {
  public:
    /// On the instruction set that chosen_simd() names, or on one of available_simd().
    explicit CodebookSearch(Parity parity, CodebookMethod method = CodebookMethod::fast);
    CodebookSearch(Parity parity, Simd simd);

    /// The nearest code word of each of out.size() points, y holding 24 values a point.
    void nearest(std::span<const float> y, std::span<CodebookWord> out) const;

    /// The `count` (1 to 64) nearest candidates of each point, nearest first: out holds `count` a point. A
    /// candidate is the best code word of its coset (flip, m, word). Of two with the same values, which
    /// happens where the other flip can say the same, only the first counts, so all are different points.
    void candidates(std::span<const float> y, size_t count, std::span<CodebookWord> out) const;

    /// The instruction set that `nearest` runs on.
    [[nodiscard]] Simd simd() const;

  private:
    [[nodiscard]] CodebookWord try_all(std::span<const float> y) const;

    Parity parity_;
    CodebookMethod method_ = CodebookMethod::fast;
    const CodebookKernels* kernels_;
};

}  // namespace kaiju::lattice
