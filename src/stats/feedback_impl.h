// Inside the error feedback: what its two forms of a covariance share.
#pragma once

#include <Eigen/Dense>
#include <functional>
#include <memory>
#include <span>

#include "stats/feedback.h"

namespace kaiju::stats {

using RowMajorMatrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Throws usage unless `order` is a permutation of 0..dim-1 with whole blocks after n_hi.
void check_order(size_t dim, std::span<const uint32_t> order, size_t n_hi);

/// What factorise(damp) makes, with more damping each time that it returns null; throws bad_input in the end.
std::unique_ptr<Feedback> retry_damped(double damp, double& used_damp,
                                       const std::function<std::unique_ptr<Feedback>(double)>& factorise);

}  // namespace kaiju::stats
