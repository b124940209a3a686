// What an error of the weights costs, for many covariances at once: sums over the rows of the error matrix
// that every quadratic form of a sketch is made of.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "stats/panels.h"

namespace kaiju::stats {

/// Σ over rows e of e_i² for each column, and of (u_j' e)² for each of k directions. Then
/// Σ e'Ŝe = Σ_i d_i squares[i] + Σ_{j<K} λ_j projections[j] for any diagonal d and any K ≤ k: one pass over
/// the weights serves the importance matrix and all sizes of a sketch. The result does not depend on the
/// number of threads.
class ErrorSums {
  public:
    /// `directions`: k x dim, row j = u_j.
    ErrorSums(std::span<const float> directions, size_t dim);

    /// Adds rows of the error matrix, row-major, dim values each.
    void add(const float* rows, size_t count, int threads);

    [[nodiscard]] const std::vector<double>& squares() const { return squares_; }
    [[nodiscard]] const std::vector<double>& projections() const { return projections_; }

  private:
    size_t dim_;
    Panels directions_;  ///< dim x k
    std::vector<double> squares_;
    std::vector<double> projections_;
    Panels rows_;
    Panels transposed_;
};

/// Σ e'Ŝe of a sketch cut to its first `k` eigenpairs, k ≤ eigval.size(): with U the first k eigenvectors,
/// Ŝ = diag(max(diag - diag(UΛU'), ε)) + UΛU', ε = `floor` times the mean of diag. eigvec: row j of dim
/// values is the eigenvector of eigval[j], the same that `sums` was made with.
[[nodiscard]] double sketch_form(std::span<const float> diag, std::span<const float> eigval,
                                 std::span<const float> eigvec, size_t k, double floor,
                                 const ErrorSums& sums);

}  // namespace kaiju::stats
