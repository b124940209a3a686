#include "stats/eigen.h"

#include <fmt/format.h>

#include <Spectra/MatOp/DenseSymMatProd.h>
#include <Spectra/SymEigsSolver.h>
#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"

namespace kaiju::stats {

namespace {

using Matrix = Eigen::Map<const Eigen::MatrixXd>;

/// Columns `last`, `last - 1`, ... of a decomposition whose eigenvalues ascend, or `first`, ... where they
/// descend.
template <typename Values, typename Vectors>
EigenPairs take(const Values& values, const Vectors& vectors, size_t k, bool descending) {
    const auto dim = static_cast<size_t>(vectors.rows());
    EigenPairs pairs{.values = std::vector<double>(k), .vectors = std::vector<double>(k * dim)};
    for (size_t j = 0; j < k; ++j) {
        const auto column =
            static_cast<Eigen::Index>(descending ? j : static_cast<size_t>(values.size()) - 1 - j);
        pairs.values[j] = std::max(values[column], 0.0);
        Eigen::Map<Eigen::VectorXd>(pairs.vectors.data() + j * dim, static_cast<Eigen::Index>(dim)) =
            vectors.col(column);
    }
    return pairs;
}

std::optional<EigenPairs> lanczos(const Matrix& matrix, size_t k) {
    constexpr double kTolerance = 1e-9;
    constexpr Eigen::Index kRestarts = 300;
    const size_t space = std::min(std::max(2 * k + 16, size_t{64}), static_cast<size_t>(matrix.rows()));
    Spectra::DenseSymMatProd<double> product(matrix);
    Spectra::SymEigsSolver<Spectra::DenseSymMatProd<double>> solver(product, static_cast<Eigen::Index>(k),
                                                                    static_cast<Eigen::Index>(space));
    try {
        solver.init();  // a start of fixed pseudo-random numbers
        if (solver.compute(Spectra::SortRule::LargestAlge, kRestarts, kTolerance) <
            static_cast<Eigen::Index>(k)) {
            return std::nullopt;
        }
    } catch (const std::exception&) {  // of low rank: the iteration runs out of directions
        return std::nullopt;
    }
    return take(solver.eigenvalues(), solver.eigenvectors(), k, true);
}

EigenPairs decompose(const Matrix& matrix, size_t k) {
    const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(matrix);
    if (solver.info() != Eigen::Success) {
        throw Error(ErrorCode::bad_input, "the eigenvalue iteration does not converge");
    }
    return take(solver.eigenvalues(), solver.eigenvectors(), k, false);
}

}  // namespace

EigenPairs largest_eigenpairs(std::span<const double> dense, size_t dim, size_t k) {
    if (dense.size() != dim * dim || k > dim) {
        throw Error(ErrorCode::internal, fmt::format("{} eigenpairs of {} columns", k, dim));
    }
    if (k == 0) {
        return {};
    }
    constexpr size_t kSmall = 256;
    const Matrix matrix(dense.data(), static_cast<Eigen::Index>(dim), static_cast<Eigen::Index>(dim));
    if (!matrix.allFinite()) {
        throw Error(ErrorCode::bad_input, "the matrix is not finite");
    }
    std::optional<EigenPairs> pairs;
    if (dim > kSmall && 4 * k < dim && matrix.trace() > 0) {
        pairs = lanczos(matrix, k);
    }
    if (!pairs) {
        pairs = decompose(matrix, k);
    }
    fix_signs(pairs->vectors, dim);
    return *pairs;
}

void fix_signs(std::span<double> vectors, size_t dim) {
    for (size_t begin = 0; begin < vectors.size(); begin += dim) {
        const auto row = vectors.subspan(begin, dim);
        // Compared as they are stored: equal f32 values are equals.
        const auto size = [](double value) { return std::fabs(static_cast<float>(value)); };
        const auto largest = std::ranges::max_element(row, {}, size);
        if (*largest < 0) {
            std::ranges::transform(row, row.begin(), [](double value) { return -value; });
        }
    }
}

}  // namespace kaiju::stats
