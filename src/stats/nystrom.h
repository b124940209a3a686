// Second moments of activations that are too wide for a Gram matrix: a product with a thin random matrix.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/bytes.h"
#include "stats/eigen.h"
#include "stats/panels.h"

namespace kaiju::stats {

/// Ω: dim x rank independent normal numbers from a fixed seed, as panels of 32 columns of the rank. One
/// serves all taps of a width. Column r does not depend on the rank.
[[nodiscard]] std::shared_ptr<const Panels> gaussian_panels(uint32_t dim, uint32_t rank);

/// Columns of Ω for `k` eigenpairs: 128, and at least 2 k, in whole panels; never more than dim.
[[nodiscard]] uint32_t nystrom_rank(uint32_t dim, uint32_t k);

/// Y = Σ x (xᵀ Ω) over the samples in one pass (f64 sums; the products as in tile_product.h), and the exact
/// diagonal. From Y the matrix C = E[x xᵀ] is known as C Ω (Ωᵀ C Ω)⁻¹ Ωᵀ C, never more than C (Nyström;
/// Tropp, Yurtsever, Udell and Cevher 2017, algorithm 3, with its shift against rounding). Memory is dim x
/// rank, not dim². The result does not depend on the number of threads.
class NystromAccumulator {
  public:
    explicit NystromAccumulator(std::shared_ptr<const Panels> omega);

    /// Bytes that an accumulator holds, without Ω.
    [[nodiscard]] static uint64_t bytes_of(uint32_t dim, uint32_t rank);

    /// Adds samples, `rows` x dim. Throws bad_input where a value is not finite (or its square is not).
    void add(const Panels& rows, int threads);

    [[nodiscard]] uint32_t dim() const { return static_cast<uint32_t>(omega_->rows()); }
    [[nodiscard]] uint32_t rank() const { return static_cast<uint32_t>(omega_->cols()); }
    [[nodiscard]] uint64_t samples() const { return samples_; }
    /// E[x_i²], dim values.
    [[nodiscard]] std::vector<double> diagonal() const;
    /// The k largest eigenpairs of the approximation, k ≤ rank.
    [[nodiscard]] EigenPairs largest_eigenpairs(size_t k) const;

    void save(ByteWriter& out) const;
    void load(ByteReader& in);

  private:
    std::shared_ptr<const Panels> omega_;
    uint64_t samples_ = 0;
    std::vector<double> squares_;
    std::vector<Tile> tiles_;  ///< of Y: panel of columns x panel of Ω's columns, the latter fastest
};

}  // namespace kaiju::stats
