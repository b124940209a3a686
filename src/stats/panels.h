// Matrices cut into panels of 32 columns, the form that tile_product reads.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "stats/tile_product.h"

namespace kaiju::stats {

/// rows x cols values of f32; panel p holds the columns p·32 .. p·32+31 of all rows, row-major, zeros where
/// there are no columns any more.
class Panels {
  public:
    Panels() = default;
    Panels(size_t rows, size_t cols);

    /// Takes the size of another matrix; all values become 0. Keeps its memory where it suffices.
    void resize(size_t rows, size_t cols);
    /// Packs rows of a matrix, row r at data + r * stride.
    void pack(const float* data, size_t rows, size_t cols, size_t stride, int threads);
    /// The transpose of `from`.
    void pack_transposed(const Panels& from, int threads);

    [[nodiscard]] size_t rows() const { return rows_; }
    [[nodiscard]] size_t cols() const { return cols_; }
    [[nodiscard]] size_t count() const { return (cols_ + kPanel - 1) / kPanel; }
    [[nodiscard]] float* panel(size_t p) { return values_.data() + p * rows_ * kPanel; }
    [[nodiscard]] const float* panel(size_t p) const { return values_.data() + p * rows_ * kPanel; }
    [[nodiscard]] float& at(size_t row, size_t col) {
        return panel(col / kPanel)[row * kPanel + col % kPanel];
    }
    [[nodiscard]] float at(size_t row, size_t col) const {
        return panel(col / kPanel)[row * kPanel + col % kPanel];
    }

  private:
    size_t rows_ = 0;
    size_t cols_ = 0;
    std::vector<float> values_;
};

}  // namespace kaiju::stats
