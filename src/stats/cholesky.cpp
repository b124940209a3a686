// Right-looking and blocked (Golub and Van Loan, 4.2): a panel of 96 columns is factorised in f64, the rows
// below it are solved for, and their products are taken from what is right of it. Those are nearly all of the
// work and go through the lane kernel. A library's would be as fast, but its bits depend on the processor and
// on the number of threads, and a knot's may not.
#include "stats/cholesky.h"

#include <array>
#include <cmath>

#include "base/parallel.h"

namespace kaiju::stats {

namespace {

/// Columns of a panel. Wider ones read the rest of the matrix less often, narrower ones leave less to f64.
constexpr size_t kPanelWidth = 96;
/// Rows whose products are summed apart before the matrix is touched.
constexpr size_t kRowsAtATime = 96;
/// Strips that use those rows while they are in the first-level cache.
constexpr size_t kStripsAtATime = 4;

static_assert(kPanelWidth % kLanes == 0 && kRowsAtATime % kLanes == 0);

}  // namespace

LowerTriangle::LowerTriangle(size_t n) : n_(n) {
    const size_t strips = (n + kLanes - 1) / kLanes;
    size_t total = 0;
    for (size_t s = 0; s < strips; ++s) {
        offsets_.push_back(total);
        total += (strips - s) * kLanes * kLanes;
    }
    values_.assign(total, 0.0F);
    for (size_t i = n; i < padded(); ++i) {
        at(i, i) = 1;
    }
}

bool LowerTriangle::factorise(int threads) {
    std::vector<double> lower;
    std::vector<float> packed;
    for (size_t first = 0; first < padded(); first += kPanelWidth) {
        const size_t width = std::min(kPanelWidth, padded() - first);
        if (!factorise_diagonal(first, width, lower)) {
            return false;
        }
        const size_t next = first + width;
        packed.resize((padded() - next) * width);
        parallel_for((padded() - next) / kLanes, 8, threads, [&](size_t begin, size_t end) {
            for (size_t s = begin; s < end; ++s) {
                solve_rows(next + s * kLanes, first, width, lower, packed.data() + s * kLanes * width);
            }
        });
        parallel_for((padded() - next) / kLanes, kStripsAtATime, threads, [&](size_t begin, size_t end) {
            subtract_products(next / kLanes + begin, end - begin, width,
                              packed.data() + begin * kLanes * width);
        });
    }
    return true;
}

/// The panel's own square: L in place and, row by row, in `lower`.
bool LowerTriangle::factorise_diagonal(size_t first, size_t width, std::vector<double>& lower) {
    lower.assign(width * width, 0.0);
    for (size_t i = 0; i < width; ++i) {
        for (size_t j = 0; j <= i; ++j) {
            double sum = at(first + i, first + j);
            for (size_t k = 0; k < j; ++k) {
                sum -= lower[i * width + k] * lower[j * width + k];
            }
            if (i > j) {
                lower[i * width + j] = sum / lower[j * width + j];
            } else if (sum > 0 && std::isfinite(sum)) {
                lower[i * width + i] = std::sqrt(sum);
            } else {
                return false;
            }
            at(first + i, first + j) = static_cast<float>(lower[i * width + j]);
        }
    }
    return true;
}

/// 16 rows below the panel: x L' = a for each, x in place and, row by row, in `packed`.
void LowerTriangle::solve_rows(size_t row, size_t first, size_t width, const std::vector<double>& lower,
                               float* packed) {
    std::array<std::array<double, kLanes>, kPanelWidth> x;
    for (size_t j = 0; j < width; ++j) {
        for (size_t lane = 0; lane < kLanes; ++lane) {
            x[j][lane] = at(row + lane, first + j);
        }
        for (size_t k = 0; k < j; ++k) {
            const double factor = lower[j * width + k];
            for (size_t lane = 0; lane < kLanes; ++lane) {
                x[j][lane] -= factor * x[k][lane];
            }
        }
        for (size_t lane = 0; lane < kLanes; ++lane) {
            x[j][lane] /= lower[j * width + j];
            const auto value = static_cast<float>(x[j][lane]);
            at(row + lane, first + j) = value;
            packed[lane * width + j] = value;
        }
    }
}

/// `count` strips right of the panel: their rows less the products of those in the panel with the strips' own
/// rows there, which begin `packed`.
void LowerTriangle::subtract_products(size_t s, size_t count, size_t width, const float* packed) {
    std::array<std::array<float, kPanelWidth * kLanes>, kStripsAtATime> own;
    for (size_t n = 0; n < count; ++n) {
        for (size_t lane = 0; lane < kLanes; ++lane) {
            for (size_t j = 0; j < width; ++j) {
                own[n][j * kLanes + lane] = packed[(n * kLanes + lane) * width + j];
            }
        }
    }
    std::array<float, kRowsAtATime * kLanes> products;
    const size_t rows = padded() - s * kLanes;  // from the first strip's diagonal down
    for (size_t row = 0; row < rows; row += kRowsAtATime) {
        const size_t end = std::min(row + kRowsAtATime, rows);
        for (size_t n = 0; n < count; ++n) {
            const size_t begin = std::max(row, n * kLanes);  // the strip's own diagonal
            if (begin >= end) {
                continue;
            }
            products.fill(0);
            lanes_.multiply_add(packed + begin * width, width, end - begin, width, own[n].data(),
                                products.data());
            float* const out = strip(s + n) + (begin - n * kLanes) * kLanes;
            for (size_t i = 0; i < (end - begin) * kLanes; ++i) {
                out[i] -= products[i];
            }
        }
    }
}

}  // namespace kaiju::stats
