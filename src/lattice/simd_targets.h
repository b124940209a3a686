// The instruction sets that kernels are built for, told to Highway before its headers: scalar (one lane at a
// time, a full peer and not an emulation of vectors), SSE4, AVX2, AVX-512.
#pragma once

#define HWY_BROKEN_EMU128 1
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
