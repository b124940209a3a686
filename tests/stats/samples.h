// Random samples with a covariance that decays, and the slow sums that accumulators are compared with.
#pragma once

#include <cmath>
#include <cstddef>
#include <random>
#include <vector>

namespace kaiju::stats::test {

/// rows x cols: column i has a scale of its own, and `common` directions are shared by all columns.
inline std::vector<float> samples(size_t rows, size_t cols, size_t common, unsigned seed) {
    std::mt19937 random(seed);
    const auto number = [&] { return static_cast<float>(random()) / 2147483648.0F - 1.0F; };
    std::vector<float> directions(common * cols);
    for (float& value : directions) {
        value = number();
    }
    std::vector<float> values(rows * cols);
    for (size_t r = 0; r < rows; ++r) {
        for (size_t i = 0; i < cols; ++i) {
            values[r * cols + i] = 0.1F * number();
        }
        for (size_t j = 0; j < common; ++j) {
            const float weight = 4 * number() / static_cast<float>(1 + j);
            for (size_t i = 0; i < cols; ++i) {
                values[r * cols + i] += weight * directions[j * cols + i];
            }
        }
    }
    return values;
}

/// E[x xᵀ], every product in f64.
inline std::vector<double> slow_moments(const std::vector<float>& values, size_t cols) {
    const size_t rows = values.size() / cols;
    std::vector<double> sums(cols * cols);
    for (size_t r = 0; r < rows; ++r) {
        const float* x = values.data() + r * cols;
        for (size_t i = 0; i < cols; ++i) {
            for (size_t j = 0; j < cols; ++j) {
                sums[i * cols + j] += static_cast<double>(x[i]) * static_cast<double>(x[j]);
            }
        }
    }
    for (double& sum : sums) {
        sum /= static_cast<double>(rows);
    }
    return sums;
}

/// The largest |a_ij - b_ij| / sqrt(b_ii b_jj).
inline double largest_difference(const std::vector<double>& a, const std::vector<double>& b, size_t dim) {
    double largest = 0;
    for (size_t i = 0; i < dim; ++i) {
        for (size_t j = 0; j < dim; ++j) {
            const double scale = std::sqrt(b[i * dim + i] * b[j * dim + j]);
            largest = std::max(largest, std::fabs(a[i * dim + j] - b[i * dim + j]) / scale);
        }
    }
    return largest;
}

}  // namespace kaiju::stats::test
