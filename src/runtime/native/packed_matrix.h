// A weight matrix in a wire of this project, in the order that its product wants.
#pragma once

#include <cstddef>
#include <memory>

#include "base/bytes.h"
#include "format/tensor_info.h"

namespace kaiju::runtime {

/// What a packed matrix multiplies with.
enum class Activations {
    int8,  ///< inputs rounded to 8-bit integers, a scale per 24 of them (those of the side-band to 16 bits)
    f32,   ///< inputs as they are: slower, without the error of that rounding
};

/// A rows x cols matrix W that multiplies activations: y = W x for each of some tokens. A product has two
/// steps, because matrices that share their input (q and k, gate and up) can share the first: prepare()
/// brings the activations into the kernel's order and type, multiply() reads that. Both are called by `nth`
/// threads at once, each with its own `ith`, and divide the work by it; results depend neither on nth nor on
/// how many tokens are multiplied together.
class PackedMatrix {
  public:
    virtual ~PackedMatrix() = default;
    /// The instruction set of its kernels: "scalar", "avx2" or "avx512-vnni".
    [[nodiscard]] virtual const char* kernel() const = 0;
    [[nodiscard]] virtual size_t rows() const = 0;
    [[nodiscard]] virtual size_t cols() const = 0;
    /// Memory that the packed weights take.
    [[nodiscard]] virtual size_t bytes() const = 0;

    /// Bytes that prepare() writes for so many tokens.
    [[nodiscard]] virtual size_t prepared_bytes(size_t tokens) const = 0;
    /// True where activations prepared for `other` are as good for this matrix.
    [[nodiscard]] virtual bool shares_preparation(const PackedMatrix& other) const = 0;
    /// `x`: tokens rows of cols() values, row t at x + t * stride. `out`: aligned to 32 bytes.
    virtual void prepare(const float* x, size_t stride, size_t tokens, std::byte* out, int ith,
                         int nth) const = 0;
    /// Writes rows() values a token, those of token t at y + t * stride.
    virtual void multiply(const std::byte* prepared, size_t tokens, float* y, size_t stride, int ith,
                          int nth) const = 0;
};

/// Where the work of thread `ith` of `nth` begins and ends.
struct Share {
    size_t begin;
    size_t end;
    Share(size_t units, int ith, int nth)
        : begin(units * static_cast<size_t>(ith) / static_cast<size_t>(nth)),
          end(units * (static_cast<size_t>(ith) + 1) / static_cast<size_t>(nth)) {}
};

/// Packs a tensor of a wire of this project, checking every block of it. `threads`: for the packing. Throws
/// bad_input where the payload is corrupt, or no kernel knows the type, naming it.
[[nodiscard]] std::unique_ptr<PackedMatrix> pack_matrix(const format::TensorInfo& info, Bytes payload,
                                                        Activations activations, int threads);

}  // namespace kaiju::runtime
