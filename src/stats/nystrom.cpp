#include "stats/nystrom.h"

#include <fmt/format.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/parallel.h"
#include "stats/gram.h"
#include "stats/sums_io.h"

namespace kaiju::stats {

namespace {

/// splitmix64 (Steele, Lea and Flood 2014): a good mixture of a counter.
uint64_t mix(uint64_t x) {
    x += 0x9E3779B97F4A7C15U;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
    return x ^ (x >> 31);
}

/// In (0, 1].
double uniform(uint64_t counter) {
    return static_cast<double>((mix(counter) >> 11) + 1) * 0x1p-53;
}

/// Box and Muller's normal number at a place of the matrix.
float normal_at(uint64_t row, uint64_t col) {
    constexpr uint64_t kSeed = 0x6B61696A75;  // "kaiju"
    const uint64_t counter = mix(kSeed + (col << 32) + row);
    const double radius = std::sqrt(-2 * std::log(uniform(counter)));
    return static_cast<float>(radius * std::cos(2 * std::numbers::pi * uniform(~counter)));
}

}  // namespace

std::shared_ptr<const Panels> gaussian_panels(uint32_t dim, uint32_t rank) {
    auto omega = std::make_shared<Panels>(dim, rank);
    for (size_t row = 0; row < dim; ++row) {
        for (size_t col = 0; col < rank; ++col) {
            omega->at(row, col) = normal_at(row, col);
        }
    }
    return omega;
}

uint32_t nystrom_rank(uint32_t dim, uint32_t k) {
    constexpr uint32_t kLeast = 128;
    const uint64_t wanted = std::max<uint64_t>(kLeast, 2 * uint64_t{k});
    return static_cast<uint32_t>(std::min<uint64_t>(dim, (wanted + kPanel - 1) / kPanel * kPanel));
}

NystromAccumulator::NystromAccumulator(std::shared_ptr<const Panels> omega)
    : omega_(std::move(omega)),
      squares_(omega_->rows()),
      tiles_((omega_->rows() + kPanel - 1) / kPanel * omega_->count(), Tile{}) {}

uint64_t NystromAccumulator::bytes_of(uint32_t dim, uint32_t rank) {
    const uint64_t panels = (uint64_t{dim} + kPanel - 1) / kPanel * ((uint64_t{rank} + kPanel - 1) / kPanel);
    return panels * sizeof(Tile) + dim * sizeof(double);
}

void NystromAccumulator::add(const Panels& rows, int threads) {
    if (rows.cols() != dim()) {
        throw Error(ErrorCode::internal, fmt::format("{} columns, not {}", rows.cols(), dim()));
    }
    add_squares(rows, squares_, threads);
    Panels transposed;
    transposed.pack_transposed(rows, threads);
    // P = X Ω, tile by tile: X's rows are the columns of its transpose.
    const size_t thin = omega_->count();
    Panels product(rows.rows(), rank());
    parallel_for(transposed.count() * thin, 1, threads, [&](size_t begin, size_t end) {
        for (size_t tile = begin; tile < end; ++tile) {
            Tile sums{};
            tile_product(transposed.panel(tile / thin), omega_->panel(tile % thin), dim(), sums);
            const size_t first = tile / thin * kPanel;
            const size_t count = std::min(kPanel, rows.rows() - first);
            std::transform(sums.begin(), sums.begin() + static_cast<ptrdiff_t>(count * kPanel),
                           product.panel(tile % thin) + first * kPanel,
                           [](double value) { return static_cast<float>(value); });
        }
    });
    parallel_for(tiles_.size(), 4, threads, [&](size_t begin, size_t end) {
        for (size_t tile = begin; tile < end; ++tile) {
            tile_product(rows.panel(tile / thin), product.panel(tile % thin), rows.rows(), tiles_[tile]);
        }
    });
    samples_ += rows.rows();
}

std::vector<double> NystromAccumulator::diagonal() const {
    std::vector<double> diagonal(squares_);
    if (samples_ > 0) {
        std::ranges::transform(diagonal, diagonal.begin(),
                               [this](double sum) { return sum / static_cast<double>(samples_); });
    }
    return diagonal;
}

EigenPairs NystromAccumulator::largest_eigenpairs(size_t k) const {
    const auto rows = static_cast<Eigen::Index>(dim());
    const auto cols = static_cast<Eigen::Index>(rank());
    if (k > rank()) {
        throw Error(ErrorCode::internal, fmt::format("{} eigenpairs of rank {}", k, rank()));
    }
    Eigen::MatrixXd sketch(rows, cols);
    Eigen::MatrixXd omega(rows, cols);
    for (Eigen::Index j = 0; j < cols; ++j) {
        for (Eigen::Index i = 0; i < rows; ++i) {
            const auto row = static_cast<size_t>(i);
            const auto col = static_cast<size_t>(j);
            omega(i, j) = static_cast<double>(omega_->at(row, col));
            sketch(i, j) =
                tiles_[row / kPanel * omega_->count() + col / kPanel][row % kPanel * kPanel + col % kPanel] /
                static_cast<double>(std::max<uint64_t>(samples_, 1));
        }
    }
    EigenPairs pairs{.values = std::vector<double>(k), .vectors = std::vector<double>(k * dim())};
    // ‖Y‖ / sqrt(rank) is about the norm of C. The sums are good to a few units of f32's last place: below
    // that, Ωᵀ Y may have negative eigenvalues, and the shift lifts them.
    double shift = 0x1p-21 * sketch.norm() / std::sqrt(static_cast<double>(cols));
    if (!(shift > 0)) {  // no samples, or nothing but zeros: any orthonormal vectors do
        for (size_t j = 0; j < k; ++j) {
            pairs.vectors[j * dim() + j] = 1;
        }
        return pairs;
    }
    constexpr int kAttempts = 8;
    Eigen::LLT<Eigen::MatrixXd> factor;
    Eigen::MatrixXd shifted;
    for (int attempt = 0; attempt < kAttempts; ++attempt, shift *= 8) {
        shifted = sketch + shift * omega;
        const Eigen::MatrixXd core = omega.transpose() * shifted;
        factor.compute((core + core.transpose()) / 2);
        if (factor.info() == Eigen::Success) {
            break;
        }
    }
    if (factor.info() != Eigen::Success) {
        throw Error(ErrorCode::bad_input, "the sketch of the covariance is not positive definite");
    }
    const Eigen::MatrixXd half = factor.matrixU().solve<Eigen::OnTheRight>(shifted);  // C is about half halfᵀ
    const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(half.transpose() * half);
    const Eigen::MatrixXd largest =
        solver.eigenvectors().rightCols(static_cast<Eigen::Index>(k)).rowwise().reverse();
    const Eigen::MatrixXd vectors = half * largest;
    for (size_t j = 0; j < k; ++j) {
        const auto column = static_cast<Eigen::Index>(j);
        pairs.values[j] = std::max(solver.eigenvalues()[cols - 1 - column] - shift, 0.0);
        Eigen::Map<Eigen::VectorXd>(pairs.vectors.data() + j * dim(), rows) =
            vectors.col(column).normalized();
    }
    fix_signs(pairs.vectors, dim());
    return pairs;
}

void NystromAccumulator::save(ByteWriter& out) const {
    save_sums(out, samples_, squares_, tiles_);
}

void NystromAccumulator::load(ByteReader& in) {
    load_sums(in, samples_, squares_, tiles_);
}

}  // namespace kaiju::stats
