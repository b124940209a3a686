// One of a kernel file's instruction sets, chosen at run time. For the part of such a file that is compiled
// once.
#pragma once

#include "lattice/simd.h"
#include "lattice/simd_targets.h"

#include <hwy/detect_targets.h>

#if HWY_TARGETS & HWY_AVX3
#define KAIJU_CASE_AVX512(function)    \
    case kaiju::lattice::Simd::avx512: \
        return N_AVX3::function();
#else
#define KAIJU_CASE_AVX512(function)
#endif
#if HWY_TARGETS & HWY_AVX2
#define KAIJU_CASE_AVX2(function)    \
    case kaiju::lattice::Simd::avx2: \
        return N_AVX2::function();
#else
#define KAIJU_CASE_AVX2(function)
#endif
#if HWY_TARGETS & HWY_SSE4
#define KAIJU_CASE_SSE4(function)    \
    case kaiju::lattice::Simd::sse4: \
        return N_SSE4::function();
#else
#define KAIJU_CASE_SSE4(function)
#endif
#if HWY_TARGETS & HWY_SCALAR
#define KAIJU_CASE_SCALAR(function)    \
    case kaiju::lattice::Simd::scalar: \
        return N_SCALAR::function();
#else
#define KAIJU_CASE_SCALAR(function)
#endif

/// Returns function() as it was compiled for `simd`; a build for one processor has its own instruction set
/// only.
#define KAIJU_RETURN_FOR(simd, function)            \
    switch (simd) {                                 \
        KAIJU_CASE_AVX512(function)                 \
        KAIJU_CASE_AVX2(function)                   \
        KAIJU_CASE_SSE4(function)                   \
        KAIJU_CASE_SCALAR(function)                 \
        default:                                    \
            return HWY_STATIC_DISPATCH(function)(); \
    }
