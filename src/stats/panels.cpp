#include "stats/panels.h"

#include <algorithm>

#include "base/parallel.h"

namespace kaiju::stats {

Panels::Panels(size_t rows, size_t cols) {
    resize(rows, cols);
}

void Panels::resize(size_t rows, size_t cols) {
    rows_ = rows;
    cols_ = cols;
    values_.assign(rows * count() * kPanel, 0.0F);
}

void Panels::pack(const float* data, size_t rows, size_t cols, size_t stride, int threads) {
    rows_ = rows;
    cols_ = cols;
    values_.resize(rows * count() * kPanel);
    parallel_for(count(), 8, threads, [&](size_t begin, size_t end) {
        for (size_t p = begin; p < end; ++p) {
            const size_t width = std::min(kPanel, cols - p * kPanel);
            float* out = panel(p);
            for (size_t r = 0; r < rows; ++r, out += kPanel) {
                const float* row = data + r * stride + p * kPanel;
                std::fill(std::copy(row, row + width, out), out + kPanel, 0.0F);
            }
        }
    });
}

void Panels::pack_transposed(const Panels& from, int threads) {
    rows_ = from.cols();
    cols_ = from.rows();
    values_.resize(rows_ * count() * kPanel);
    parallel_for(count(), 1, threads, [&](size_t begin, size_t end) {
        for (size_t p = begin; p < end; ++p) {
            const size_t width = std::min(kPanel, cols_ - p * kPanel);
            for (size_t row = 0; row < rows_; ++row) {
                float* out = panel(p) + row * kPanel;
                const float* in = from.panel(row / kPanel) + p * kPanel * kPanel + row % kPanel;
                for (size_t i = 0; i < width; ++i) {
                    out[i] = in[i * kPanel];
                }
                std::fill(out + width, out + kPanel, 0.0F);
            }
        }
    });
}

}  // namespace kaiju::stats
