// The rotation of a matrix's columns that KAIJU4 quantises after (docs/kaiju4.md, 2).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kaiju::codec {

/// Random signs, then a Hadamard transform of every run of `span` columns: orthogonal, so that a matrix and
/// its inputs may both be rotated.
class Rotation {
  public:
    static constexpr uint32_t kLargestSpan = 512;

    /// For `cols` >= 1 columns, signs from the seed.
    Rotation(uint32_t cols, uint64_t seed);

    /// The largest power of two, at most 512, that divides cols.
    [[nodiscard]] static uint32_t span_of(uint32_t cols);
    [[nodiscard]] uint32_t span() const { return span_; }
    [[nodiscard]] uint32_t cols() const { return static_cast<uint32_t>(signs_.size()); }
    /// 1 or -1 a column.
    [[nodiscard]] std::span<const float> signs() const { return signs_; }

    /// x (cols values) becomes H (s ∘ x): a row of weights, or an input.
    void rotate(float* x) const;
    void rotate(double* x) const;
    /// The same for each of `count` columns of a matrix of cols() rows, `stride` values apart.
    void rotate_rows(float* x, size_t count, size_t stride) const;

    friend bool operator==(const Rotation&, const Rotation&) = default;

  private:
    uint32_t span_;
    std::vector<float> signs_;
};

/// out_j = Σ_i (-1)^popcount(i & j) x_i in place, without the factor 1 / sqrt(n); n a power of two.
void hadamard(float* x, size_t n);
void hadamard(double* x, size_t n);

}  // namespace kaiju::codec
