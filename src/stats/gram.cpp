#include "stats/gram.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "stats/sums_io.h"

namespace kaiju::stats {

namespace {

size_t panels_of(uint32_t dim) {
    return (size_t{dim} + kPanel - 1) / kPanel;
}

size_t tile_index(size_t row_panel, size_t col_panel) {
    return row_panel * (row_panel + 1) / 2 + col_panel;
}

}  // namespace

void add_squares(const Panels& rows, std::span<double> squares, int threads) {
    parallel_for(rows.count(), 8, threads, [&](size_t begin, size_t end) {
        for (size_t p = begin; p < end; ++p) {
            const size_t width = std::min(kPanel, rows.cols() - p * kPanel);
            double* const sums = squares.data() + p * kPanel;
            const float* x = rows.panel(p);
            for (size_t r = 0; r < rows.rows(); ++r, x += kPanel) {
                for (size_t i = 0; i < width; ++i) {
                    sums[i] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
                }
            }
        }
    });
    const auto broken = std::ranges::find_if(
        squares, [](double value) { return !(std::isfinite(static_cast<float>(value))); });
    if (broken != squares.end()) {
        throw Error(ErrorCode::bad_input,
                    fmt::format("column {} is not finite: the model is broken", broken - squares.begin()));
    }
}

GramAccumulator::GramAccumulator(uint32_t dim)
    : dim_(dim), squares_(dim), tiles_(tile_index(panels_of(dim), 0), Tile{}) {}

uint64_t GramAccumulator::bytes_of(uint32_t dim) {
    return tile_index(panels_of(dim), 0) * sizeof(Tile) + dim * sizeof(double);
}

void GramAccumulator::add(const Panels& rows, int threads) {
    if (rows.cols() != dim_) {
        throw Error(ErrorCode::internal, fmt::format("{} columns, not {}", rows.cols(), dim_));
    }
    add_squares(rows, squares_, threads);
    // Each tile belongs to one thread for the whole call, so that its order of sums is fixed.
    constexpr size_t kTilesAtATime = 16;
    parallel_for(tiles_.size(), kTilesAtATime, threads, [&](size_t begin, size_t end) {
        auto row = static_cast<size_t>((std::sqrt(8.0 * static_cast<double>(begin) + 1) - 1) / 2);
        row -= tile_index(row, 0) > begin ? 1 : 0;
        row += tile_index(row + 1, 0) <= begin ? 1 : 0;
        size_t col = begin - tile_index(row, 0);
        for (size_t tile = begin; tile < end; ++tile) {
            tile_product(rows.panel(row), rows.panel(col), rows.rows(), tiles_[tile]);
            if (++col > row) {
                ++row;
                col = 0;
            }
        }
    });
    samples_ += rows.rows();
}

double GramAccumulator::mean_at(size_t row, size_t col) const {
    const double sum =
        row == col ? squares_[row]
                   : tiles_[tile_index(row / kPanel, col / kPanel)][row % kPanel * kPanel + col % kPanel];
    return samples_ == 0 ? 0 : sum / static_cast<double>(samples_);
}

std::vector<double> GramAccumulator::diagonal() const {
    std::vector<double> diagonal(dim_);
    for (size_t i = 0; i < dim_; ++i) {
        diagonal[i] = mean_at(i, i);
    }
    return diagonal;
}

std::vector<double> GramAccumulator::mean() const {
    std::vector<double> dense(size_t{dim_} * dim_);
    for (size_t i = 0; i < dim_; ++i) {
        for (size_t j = 0; j <= i; ++j) {
            dense[i * dim_ + j] = dense[j * dim_ + i] = mean_at(i, j);
        }
    }
    return dense;
}

std::vector<float> GramAccumulator::packed_mean() const {
    std::vector<float> packed;
    packed.reserve(size_t{dim_} * (size_t{dim_} + 1) / 2);
    for (size_t i = 0; i < dim_; ++i) {
        for (size_t j = 0; j <= i; ++j) {
            packed.push_back(static_cast<float>(mean_at(i, j)));
        }
    }
    return packed;
}

void GramAccumulator::save(ByteWriter& out) const {
    save_sums(out, samples_, squares_, tiles_);
}

void GramAccumulator::load(ByteReader& in) {
    load_sums(in, samples_, squares_, tiles_);
}

}  // namespace kaiju::stats
