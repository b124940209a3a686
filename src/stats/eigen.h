// The largest eigenpairs of a symmetric matrix.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kaiju::stats {

/// k eigenpairs, largest eigenvalue first.
struct EigenPairs {
    std::vector<double> values{};   ///< k values, descending; negative ones (rounding) are made 0
    std::vector<double> vectors{};  ///< k x dim, row j the unit eigenvector of values[j]
};

/// Of a symmetric matrix without negative eigenvalues, `dense` dim x dim; k ≤ dim. Small matrices, and those
/// of which much is wanted, are decomposed whole (Eigen: tridiagonal form and implicit QL); of the others a
/// restarted Lanczos iteration finds the largest pairs (Spectra). One thread, no randomness: equal inputs
/// give equal outputs. Each vector's largest component in size (the first of equals) is positive.
[[nodiscard]] EigenPairs largest_eigenpairs(std::span<const double> dense, size_t dim, size_t k);

/// Makes the largest component in size (the first of equals, as f32) of each row positive.
void fix_signs(std::span<double> vectors, size_t dim);

}  // namespace kaiju::stats
