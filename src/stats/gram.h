// Second moments of activations, exactly: every product of two columns, summed over the samples.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "stats/panels.h"

namespace kaiju::stats {

/// Sum over samples x of the lower triangle of x xᵀ, in f64 (tile_product.h says how exactly; the diagonal
/// alone is f64 throughout). The result does not depend on the number of threads; it does on how the samples
/// are cut into calls of add, in the last bits.
class GramAccumulator {
  public:
    explicit GramAccumulator(uint32_t dim);

    /// Bytes that an accumulator of `dim` columns holds.
    [[nodiscard]] static uint64_t bytes_of(uint32_t dim);

    /// Adds samples, `rows` x dim. Throws bad_input where a value is not finite (or its square is not).
    void add(const Panels& rows, int threads);

    [[nodiscard]] uint32_t dim() const { return dim_; }
    [[nodiscard]] uint64_t samples() const { return samples_; }
    /// E[x_i²], dim values.
    [[nodiscard]] std::vector<double> diagonal() const;
    /// E[x xᵀ], both triangles, dim x dim; zeros where there were no samples.
    [[nodiscard]] std::vector<double> mean() const;
    /// The lower triangle of it row by row, as docs/covariance.md stores it.
    [[nodiscard]] std::vector<float> packed_mean() const;

    /// All of the state, to continue from later: what save appended, load takes back (bad_input otherwise).
    void save(ByteWriter& out) const;
    void load(ByteReader& in);

  private:
    [[nodiscard]] double mean_at(size_t row, size_t col) const;

    uint32_t dim_;
    uint64_t samples_ = 0;
    std::vector<double> squares_;
    std::vector<Tile> tiles_;  ///< of panels (0,0), (1,0), (1,1), (2,0), ...
};

/// Adds the squares of the columns of `rows` to `squares`, in f64 and in the order of the rows. Throws
/// bad_input where a sum is not finite afterwards. Shared by the accumulators.
void add_squares(const Panels& rows, std::span<double> squares, int threads);

}  // namespace kaiju::stats
