// Which instruction set the batched kernels use.
#pragma once

#include <span>
#include <string_view>

namespace kaiju::lattice {

/// The instruction sets that kernels are built for, weakest first. All give the same bits.
enum class Simd { scalar, sse4, avx2, avx512 };

[[nodiscard]] std::string_view simd_name(Simd simd);

/// Those that this processor has and this program was built with, weakest first; never empty.
[[nodiscard]] std::span<const Simd> available_simd();

/// The one to use: what the environment variable KAIJU_SIMD names (scalar, sse4, avx2 or avx512), else the
/// strongest. An unknown name, or one that this processor lacks, is an Error(usage) that lists the choices.
[[nodiscard]] Simd chosen_simd();

}  // namespace kaiju::lattice
