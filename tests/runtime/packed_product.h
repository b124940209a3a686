// Products of packed matrices, and what they should be.
#pragma once

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "codec/tensor_decoder.h"
#include "runtime/native/packed_matrix.h"

namespace kaiju::test {

/// Inputs with outliers.
inline std::vector<float> random_values(size_t count, uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<float> values(count);
    for (float& value : values) {
        value = (static_cast<float>(random() % 20001) - 10000) / 1000 * (random() % 16 == 0 ? 20.0F : 1.0F);
    }
    return values;
}

/// y = W x, by `nth` threads one after the other.
inline std::vector<float> multiply(const runtime::PackedMatrix& matrix, const std::vector<float>& x,
                                   size_t tokens, int nth) {
    const size_t stride = x.size() / tokens;
    std::vector<float> prepared((matrix.prepared_bytes(tokens) + 3) / 4);
    auto* bytes = reinterpret_cast<std::byte*>(prepared.data());
    std::vector<float> y(tokens * matrix.rows());
    for (int ith = 0; ith < nth; ++ith) {
        matrix.prepare(x.data(), stride, tokens, bytes, ith, nth);
    }
    for (int ith = 0; ith < nth; ++ith) {
        matrix.multiply(bytes, tokens, y.data(), matrix.rows(), ith, nth);
    }
    return y;
}

/// The decoder's weights times x in f64. `absolute`: Σ |w x|; `norms`: |w| |x|, which bounds it and does not
/// change where both are rotated.
struct Exact {
    std::vector<double> y;
    std::vector<double> absolute;
    std::vector<double> norms;
};

inline Exact multiply_exactly(const codec::TensorDecoder& decoder, size_t rows, const std::vector<float>& x,
                              size_t tokens) {
    const size_t cols = x.size() / tokens;
    std::vector<float> weights(rows * cols);
    decoder.decode_rows(0, rows, weights.data());
    const std::vector<double> zeros(tokens * rows);
    Exact exact{zeros, zeros, zeros};
    for (size_t t = 0; t < tokens; ++t) {
        for (size_t r = 0; r < rows; ++r) {
            double squares_w = 0;
            double squares_x = 0;
            for (size_t c = 0; c < cols; ++c) {
                const double w = weights[r * cols + c];
                const double value = x[t * cols + c];
                exact.y[t * rows + r] += w * value;
                exact.absolute[t * rows + r] += std::abs(w * value);
                squares_w += w * w;
                squares_x += value * value;
            }
            exact.norms[t * rows + r] = std::sqrt(squares_w * squares_x);
        }
    }
    return exact;
}

/// The name of a set of kernels as part of a test's.
template <typename Kernels>
std::string kernels_name(const Kernels* kernels) {
    std::string name = kernels->name;
    std::erase(name, '-');
    return name;
}

}  // namespace kaiju::test
