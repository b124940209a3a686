// The nearest-point search in the Leech lattice, behind one interface.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace kaiju::lattice {

inline constexpr size_t kDimension = 24;

/// A nearest point in Conway's integer coordinates (minimal squared norm 32, covolume 8^12) with the coset
/// that holds it: x_i = m + 2 c_i + 4 q_i, c the Golay code word of index `word` (docs/kaiju1.md, 2 and 3).
struct Nearest {
    std::array<int32_t, kDimension> x;
    uint16_t word = 0;  ///< index of the code word, 0..4095
    uint8_t m = 0;      ///< half: 0 even, 1 odd
    double d2 = 0;      ///< exact squared distance to the input as rounded to the grid

    friend bool operator==(const Nearest&, const Nearest&) = default;
};

/// Finds nearest points of Λ24. Every decoder keeps the search contract of docs/kaiju1.md 6, so that all of
/// them give the same answer for the same input, bit for bit: inputs are rounded to multiples of 2^-16 (half
/// to even), the smallest squared distance wins; ties go to the smallest m, then the smallest word, then, for
/// a coordinate exactly between two values, the smaller q, and for the parity repair the smallest coordinate.
/// A point's answer does not depend on the batch it is in. Objects are immutable: one may serve many threads.
class Decoder {
  public:
    virtual ~Decoder() = default;

    /// Nearest points of n = out.size() points, y holding 24 n values. |y| <= 2^20 and finite, else
    /// Error(bad_input) naming the point and the coordinate.
    void nearest(std::span<const float> y, std::span<Nearest> out) const;
    void nearest(std::span<const double> y, std::span<Nearest> out) const;

    [[nodiscard]] virtual std::string_view name() const = 0;
    /// The instruction set that the search was written for and runs on: "scalar", "sse4", "avx2" or "avx512".
    [[nodiscard]] virtual std::string_view simd() const { return "scalar"; }

  protected:
    /// Values as shift + residual / 2^16, the shift a multiple of 8 and the residual within [-4, 4] units of
    /// 2^16 steps. False if a value is not finite or beyond 2^20; the outputs are then meaningless.
    virtual bool to_grid(std::span<const float> y, int32_t* residual, int32_t* shift) const;
    virtual bool to_grid(std::span<const double> y, int32_t* residual, int32_t* shift) const;
    /// Nearest points of n = out.size() points, as residuals and shifts of 24 n values (8 Z^24 is a
    /// sublattice that keeps cosets and ties, so the residuals are searched and the answers moved by the
    /// shifts).
    virtual void search(const int32_t* residual, const int32_t* shift, std::span<Nearest> out) const = 0;

  private:
    template <typename Real>
    void nearest_of(std::span<const Real> y, std::span<Nearest> out) const;
};

/// "fast" (batched, on the instruction set that chosen_simd() names), "pruned" (branch and bound over the
/// code words), "exhaustive" (all 2 x 4096 cosets). Throws Error(usage) naming the choices for any other
/// name.
[[nodiscard]] std::unique_ptr<Decoder> make_decoder(std::string_view name);

/// The names that make_decoder takes, the recommended one first.
[[nodiscard]] std::span<const std::string_view> decoder_names();

}  // namespace kaiju::lattice
