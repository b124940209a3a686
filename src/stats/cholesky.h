// The Cholesky factor of a wide covariance.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "stats/lanes.h"

namespace kaiju::stats {

/// The lower triangle of a symmetric n x n matrix, and in its place, once factorised, L with LL' the matrix.
/// f32, in strips of 16 columns from the diagonal down: 2 n² bytes.
class LowerTriangle {
  public:
    explicit LowerTriangle(size_t n);

    [[nodiscard]] size_t size() const { return n_; }
    /// j <= i < size().
    [[nodiscard]] float& at(size_t i, size_t j) { return strip(j / kLanes)[index(i, j)]; }
    [[nodiscard]] float at(size_t i, size_t j) const { return strip(j / kLanes)[index(i, j)]; }

    /// The same bits for any number of threads and on every instruction set. Products are f32, their sums
    /// over 96 columns too: about 1e-6 of sqrt(a_ii a_jj) is lost, some ten times what storing the matrix
    /// costs and far below any damping. False where the matrix is not positive definite; what is left of it
    /// then is meaningless.
    [[nodiscard]] bool factorise(int threads);

  private:
    [[nodiscard]] static size_t index(size_t i, size_t j) {
        return (i - j / kLanes * kLanes) * kLanes + j % kLanes;
    }
    [[nodiscard]] float* strip(size_t s) { return values_.data() + offsets_[s]; }
    [[nodiscard]] const float* strip(size_t s) const { return values_.data() + offsets_[s]; }
    /// Rows and columns up to whole strips; those beyond n are those of the identity.
    [[nodiscard]] size_t padded() const { return kLanes * offsets_.size(); }

    [[nodiscard]] bool factorise_diagonal(size_t first, size_t width, std::vector<double>& lower);
    void solve_rows(size_t row, size_t first, size_t width, const std::vector<double>& lower, float* packed);
    void subtract_products(size_t s, size_t count, size_t width, const float* packed);

    size_t n_;
    std::vector<size_t> offsets_;  ///< of a strip in values_
    std::vector<float> values_;
    const LaneKernels& lanes_ = lane_kernels();
};

}  // namespace kaiju::stats
