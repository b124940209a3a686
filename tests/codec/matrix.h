// Matrices that are the same on every machine, for tests of the encoders.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "codec/tensor_decoder.h"

namespace kaiju::codec {

/// A linear congruential generator, sums of four uniforms for a bell shape.
class Generator {
  public:
    explicit Generator(uint64_t seed) : state_(seed * 2 + 1) {}
    float bell() {
        double sum = -2;
        for (int i = 0; i < 4; ++i) {
            state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
            sum += static_cast<double>(state_ >> 40) / (1 << 24);
        }
        return static_cast<float>(sum);
    }

  private:
    uint64_t state_;
};

struct Matrix {
    uint32_t rows;
    uint32_t cols;
    std::vector<float> weights;
    std::vector<float> importance;
};

inline Matrix make_matrix(uint32_t rows, uint32_t cols, uint64_t seed = 3) {
    Generator random(seed);
    Matrix m{
        .rows = rows, .cols = cols, .weights = std::vector<float>(size_t{rows} * cols), .importance = {}};
    for (auto& w : m.weights) {
        w = random.bell() * 0.05F;
    }
    for (uint32_t c = 0; c < cols; ++c) {
        const float x = random.bell();
        m.importance.push_back(x * x + 0.01F);
    }
    return m;
}

/// Rows from memory as a decoder, so that encode_tensor can read them.
class MemoryRows final : public TensorDecoder {
  public:
    explicit MemoryRows(const Matrix& m) : m_(m) {}
    void decode_rows(uint64_t first, uint64_t count, float* out) const override {
        std::copy_n(m_.weights.begin() + static_cast<ptrdiff_t>(first * m_.cols), count * m_.cols, out);
    }
    void check() const override {}

  private:
    const Matrix& m_;
};

/// A matrix with the full covariance of inputs that hang together strongly, as those of a model do.
struct Case {
    Matrix m;
    std::vector<float> covariance;  ///< cols x cols
};

inline Case make_case(uint32_t rows, uint32_t cols, uint64_t seed = 5) {
    constexpr size_t kFactors = 12;
    Case made{.m = make_matrix(rows, cols, seed), .covariance = std::vector<float>(size_t{cols} * cols)};
    Generator random(seed + 1);
    std::vector<float> factors(kFactors * cols);
    for (auto& f : factors) {
        f = random.bell();
    }
    for (uint32_t i = 0; i < cols; ++i) {
        for (uint32_t j = 0; j < cols; ++j) {
            double sum = i == j ? 0.05 : 0;
            for (size_t k = 0; k < kFactors; ++k) {
                sum += factors[k * cols + i] * factors[k * cols + j] / static_cast<double>(k + 1);
            }
            made.covariance[i * cols + j] = static_cast<float>(sum);
        }
        made.m.importance[i] = made.covariance[i * cols + i];
    }
    return made;
}

/// Σ_r e'Ŝe from decoded rows, in double, in the basis of the columns.
template <typename View>
double full_excess(const Case& c, const std::vector<std::byte>& payload) {
    const View view{Bytes(payload)};
    view.check();
    std::vector<float> decoded(size_t{c.m.rows} * c.m.cols);
    view.decode_rows(0, c.m.rows, decoded.data());
    double excess = 0;
    for (uint32_t r = 0; r < c.m.rows; ++r) {
        std::vector<double> e(c.m.cols);
        for (uint32_t i = 0; i < c.m.cols; ++i) {
            e[i] = static_cast<double>(decoded[r * c.m.cols + i]) - c.m.weights[r * c.m.cols + i];
        }
        for (uint32_t i = 0; i < c.m.cols; ++i) {
            for (uint32_t j = 0; j < c.m.cols; ++j) {
                excess += e[i] * e[j] * c.covariance[i * c.m.cols + j];
            }
        }
    }
    return excess;
}

}  // namespace kaiju::codec
