#include "stats/error_sums.h"

#include <algorithm>

#include "base/error.h"
#include "base/parallel.h"
#include "stats/gram.h"

namespace kaiju::stats {

ErrorSums::ErrorSums(std::span<const float> directions, size_t dim)
    : dim_(dim), squares_(dim), projections_(directions.size() / dim) {
    Panels rows;
    rows.pack(directions.data(), projections_.size(), dim, dim, 1);
    directions_.pack_transposed(rows, 1);
}

void ErrorSums::add(const float* rows, size_t count, int threads) {
    rows_.pack(rows, count, dim_, dim_, threads);
    add_squares(rows_, squares_, threads);
    if (projections_.empty()) {
        return;
    }
    transposed_.pack_transposed(rows_, threads);
    // One panel of directions is one thread's: its sums run over the rows in order.
    parallel_for(directions_.count(), 1, threads, [&](size_t begin, size_t end) {
        for (size_t p = begin; p < end; ++p) {
            const size_t width = std::min(kPanel, projections_.size() - p * kPanel);
            for (size_t group = 0; group < transposed_.count(); ++group) {
                Tile products{};
                tile_product(transposed_.panel(group), directions_.panel(p), dim_, products);
                for (size_t row = 0; row < kPanel; ++row) {
                    for (size_t j = 0; j < width; ++j) {
                        const double product = products[row * kPanel + j];
                        projections_[p * kPanel + j] += product * product;
                    }
                }
            }
        }
    });
}

double sketch_form(std::span<const float> diag, std::span<const float> eigval, std::span<const float> eigvec,
                   size_t k, double floor, const ErrorSums& sums) {
    const size_t dim = diag.size();
    if (k > eigval.size() || eigvec.size() != eigval.size() * dim || sums.squares().size() != dim ||
        sums.projections().size() != eigval.size()) {
        throw Error(ErrorCode::internal, "a sketch and sums of errors that do not fit each other");
    }
    std::vector<double> rest(diag.begin(), diag.end());
    double mean = 0;
    for (const double square : rest) {
        mean += square / static_cast<double>(dim);
    }
    double form = 0;
    for (size_t j = 0; j < k; ++j) {
        const auto value = static_cast<double>(eigval[j]);
        form += value * sums.projections()[j];
        for (size_t i = 0; i < dim; ++i) {
            const auto component = static_cast<double>(eigvec[j * dim + i]);
            rest[i] -= value * component * component;
        }
    }
    for (size_t i = 0; i < dim; ++i) {
        form += std::max(rest[i], floor * mean) * sums.squares()[i];
    }
    return form;
}

}  // namespace kaiju::stats
