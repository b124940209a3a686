#include "runtime/native/kernel_sets.h"

#include <algorithm>

#include "lattice/simd.h"

namespace kaiju::runtime {

size_t available_kernel_sets() {
#ifdef KAIJU_X86_KERNELS
    const bool avx2 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
    const bool vnni = __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
                      __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0 &&
                      __builtin_cpu_supports("avx512vnni") != 0;
    return vnni && avx2 ? 3 : avx2 ? 2 : 1;
#else
    return 1;
#endif
}

size_t allowed_kernel_sets() {
    using lattice::Simd;
    const Simd simd = lattice::chosen_simd();
    // There are no kernels for SSE4, and without VNNI none for AVX-512: the next weaker ones serve.
    const size_t allowed = simd == Simd::avx512 ? 3 : simd == Simd::avx2 ? 2 : 1;
    return std::min(allowed, available_kernel_sets());
}

}  // namespace kaiju::runtime
