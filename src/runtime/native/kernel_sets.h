// Which instruction sets the products of our wires have kernels for: scalar, AVX2 with FMA, AVX-512 with
// VNNI.
#pragma once

#include <cstddef>
#include <span>

namespace kaiju::runtime {

/// How many of them, weakest first, this processor and this program have.
[[nodiscard]] size_t available_kernel_sets();
/// How many of those KAIJU_SIMD allows (lattice::chosen_simd). Throws usage as that does.
[[nodiscard]] size_t allowed_kernel_sets();

}  // namespace kaiju::runtime
