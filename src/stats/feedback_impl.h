// Inside the error feedback: what its two forms of a covariance share.
#pragma once

#include <Eigen/Dense>
#include <span>

#include "stats/feedback.h"

namespace kaiju::stats {

using RowMajorMatrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Throws usage unless `order` is a permutation of 0..dim-1 with whole blocks after n_hi.
void check_order(size_t dim, std::span<const uint32_t> order, size_t n_hi);

}  // namespace kaiju::stats
