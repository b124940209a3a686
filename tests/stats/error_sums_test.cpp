#include "stats/error_sums.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "samples.h"
#include "stats/eigen.h"

namespace kaiju::stats {
namespace {

/// Σ e'Ŝe with Ŝ as a dense matrix, from the definition.
double dense_form(const std::vector<float>& diag, const EigenPairs& pairs, size_t k, double floor,
                  const std::vector<float>& errors) {
    const size_t dim = diag.size();
    std::vector<double> matrix(dim * dim);
    double mean = 0;
    for (size_t i = 0; i < dim; ++i) {
        mean += static_cast<double>(diag[i]) / static_cast<double>(dim);
        for (size_t j = 0; j < dim; ++j) {
            for (size_t p = 0; p < k; ++p) {
                matrix[i * dim + j] +=
                    pairs.values[p] * pairs.vectors[p * dim + i] * pairs.vectors[p * dim + j];
            }
        }
    }
    double form = 0;
    for (size_t i = 0; i < dim; ++i) {
        matrix[i * dim + i] += std::max(static_cast<double>(diag[i]) - matrix[i * dim + i], floor * mean);
    }
    for (size_t row = 0; row < errors.size() / dim; ++row) {
        for (size_t i = 0; i < dim; ++i) {
            for (size_t j = 0; j < dim; ++j) {
                form += static_cast<double>(errors[row * dim + i]) * matrix[i * dim + j] *
                        static_cast<double>(errors[row * dim + j]);
            }
        }
    }
    return form;
}

TEST(ErrorSums, give_the_quadratic_form_of_a_sketch_for_every_k) {
    for (const size_t dim : {7, 48, 70}) {
        constexpr size_t kPairs = 5;
        const auto moments = test::slow_moments(test::samples(200, dim, 3, 1), dim);
        std::vector<float> diag(dim);
        for (size_t i = 0; i < dim; ++i) {
            diag[i] = static_cast<float>(moments[i * dim + i]);
        }
        diag[2] = 1e-9F;  // less than the eigenpairs leave there: the floor takes over
        const EigenPairs pairs = largest_eigenpairs(moments, dim, kPairs);
        const std::vector<float> values(pairs.values.begin(), pairs.values.end());
        const std::vector<float> vectors(pairs.vectors.begin(), pairs.vectors.end());
        const auto errors = test::samples(77, dim, 1, 2);
        for (const int threads : {1, 3}) {
            ErrorSums sums(vectors, dim);
            sums.add(errors.data(), 40, threads);
            sums.add(errors.data() + 40 * dim, 37, threads);
            for (const size_t k : {size_t{0}, size_t{1}, kPairs}) {
                EXPECT_NEAR(sketch_form(diag, values, vectors, k, 1e-6, sums) /
                                dense_form(diag, pairs, k, 1e-6, errors),
                            1, 1e-5)
                    << dim << " columns, " << k << " pairs";
            }
            EXPECT_THROW(static_cast<void>(sketch_form(diag, values, vectors, 6, 1e-6, sums)), Error);
        }
    }
}

}  // namespace
}  // namespace kaiju::stats
