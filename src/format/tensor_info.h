// What every container knows of a tensor.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kaiju::format {

/// A tensor as a container lists it. `shape` is outermost first ([rows, cols] for a matrix; GGUF files list
/// the reverse). `type` is the knot's type string: a stock GGML name in upper case ("F16", "Q4_K", "IQ3_XXS")
/// or a wire of this project ("KAIJU1").
struct TensorInfo {
    std::string name;
    std::string type;
    std::vector<uint64_t> shape;
    uint64_t nbytes = 0;

    /// Product of all dimensions but the innermost.
    [[nodiscard]] uint64_t rows() const {
        uint64_t product = 1;
        for (size_t i = 0; i + 1 < shape.size(); ++i) {
            product *= shape[i];
        }
        return product;
    }
    [[nodiscard]] uint64_t cols() const { return shape.empty() ? 0 : shape.back(); }
    [[nodiscard]] uint64_t weights() const { return rows() * cols(); }
};

}  // namespace kaiju::format
