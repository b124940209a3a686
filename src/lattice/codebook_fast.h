// Inside the batched search of the finite code book: what its passes hand to each other.
#pragma once

#include <array>
#include <cstdint>

#include "lattice/codebook_search.h"
#include "lattice/fast.h"
#include "lattice/simd.h"

namespace kaiju::lattice {

inline constexpr size_t kCodebookBlock = 64;
inline constexpr size_t kCodebookHalves = 4;  ///< 2 flip + m

/// Bounds are in steps of 2^-9, which leaves room for sums of 63 units. Rounding s moves it by at most 2^-10;
/// a bound adds 24 of them. (The constants are rounded down.)
inline constexpr int32_t kCodebookSlack = 12;

/// One half (flip, m) of one point.
struct CodebookHalf {
    std::array<int32_t, kDimension> s;      ///< (cost of c = 0) - (cost of c = 1), grid steps
    std::array<int32_t, kDimension> clear;  ///< what the other parity of z costs more where c = 0
    std::array<int32_t, kDimension> set;    ///< and where c = 1
    uint32_t turns;                         ///< bit i: setting c_i changes the parity of z_i
    uint32_t odd;                           ///< parity of Σ z of the word 0, against what m asks
    int32_t constant;                       ///< of half the squared distance, less Σ y^2 / 2
};

struct CodebookWorkspace {
    std::array<std::array<CodebookHalf, kCodebookHalves>, kCodebookBlock> halves;
    std::array<std::array<int32_t, kDimension>, kCodebookBlock> grid;
    alignas(64) std::array<std::array<int16_t, kCodebookBlock * kDimension>, kCodebookHalves> rows{};
    alignas(64) std::array<std::array<int16_t, kCodebookBlock>, kCodebookHalves> constants{};
    std::array<int16_t[kCodebookBlock + 64], kCodebookHalves * kClasses> all;
    std::array<int16_t[kCodebookBlock + 64], 3> ranked;
    std::array<int32_t, kCodebookBlock> least;  ///< smallest constant of the halves
    std::array<Best, kCodebookBlock> best;      ///< code: half * 4096 + class * 512 + nine bits of the word
    std::array<bool, kCodebookBlock> usable;    ///< the lanes are wide enough for this point
    std::array<Item, kCodebookBlock + 32> items;
    std::array<uint16_t, kCodebookBlock> live;
    Group group;
};

/// The entry points of one instruction set.
struct CodebookKernels {
    Simd simd;  ///< what they were compiled for
    /// Nearest code words of n <= kCodebookBlock points; those that are not `usable` are left to a wider
    /// search.
    void (*search)(const float* y, size_t n, Parity parity, CodebookWorkspace& work, CodebookWord* out);
};

[[nodiscard]] const CodebookKernels& codebook_kernels(Simd simd);

}  // namespace kaiju::lattice
