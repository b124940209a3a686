// Inside the fast decoder: what its passes hand to each other. docs/leech-decoder.md explains the algorithm.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "lattice/leech.h"
#include "lattice/simd.h"
#include "lattice/turyn.h"

namespace kaiju::lattice {

/// Points that are worked on together: large enough to fill vectors with what few of them need, small enough
/// for the second-level cache. Answers do not depend on it.
inline constexpr size_t kBlock = 256;

/// Of each point and (half m, class t), a key: the class's lower bound in units of 2^-10, its four low bits
/// replaced by 8 m + t (which lowers it by less than 16). Bounds are on half the squared distance less a
/// constant of the point.
struct Bounds {
    std::array<int16_t[kBlock + 64], 16> all;    ///< by tag, then point
    std::array<int16_t[kBlock + 64], 3> ranked;  ///< the smallest, second and third key of each point
};

/// The bounds are computed from coordinates rounded to 2^-10, each off by less than 2^-11 + 2^-14. A bound
/// adds up 24 of them and, in the even half, 24 more for the offset: less than 48 (2^-11 + 2^-14) = 27 x
/// 2^-10.
inline constexpr int32_t kBoundSlack = 27;

/// One class of one half of one point, to be searched exactly.
struct Item {
    uint16_t point;
    uint8_t m;
    uint8_t t;
};

/// Items are searched in groups: rows of 24 values are stored for a whole group before any is read back.
inline constexpr size_t kGroup = 64;

/// A group's values as the search reads them: for each quarter of an octet... see store_row.
struct Group {
    alignas(64) std::array<int32_t, kGroup * kDimension> s;
    alignas(64) std::array<int32_t, kGroup * kDimension> clear;  ///< finite code book: repair where the code
                                                                 ///< bit is clear
    alignas(64) std::array<int32_t, kGroup * kDimension> set;    ///< and where it is set
    alignas(64) std::array<int32_t, kGroup> bits;
    alignas(64) std::array<int32_t, kGroup> keys;
};

/// Parity of the overlap of an octet with the words 0xAA, 0xCC, 0xF0 and 0xFF, bits 0 to 3.
inline constexpr std::array<uint8_t, 256> kOverlaps = [] {
    std::array<uint8_t, 256> overlaps{};
    for (uint32_t octet = 0; octet < 256; ++octet) {
        const auto odd = [octet](uint32_t word) {
            return static_cast<uint32_t>(std::popcount(octet & word)) & 1U;
        };
        overlaps[octet] = static_cast<uint8_t>(odd(0xAA) | odd(0xCC) << 1 | odd(0xF0) << 2 | odd(0xFF) << 3);
    }
    return overlaps;
}();

/// What a word's sums must be multiplied with to belong to class 0: -1 (as all bits) where the class word has
/// a one.
inline constexpr std::array<std::array<int32_t, kDimension>, kClasses> kClassSigns = [] {
    std::array<std::array<int32_t, kDimension>, kClasses> signs{};
    for (size_t t = 0; t < kClasses; ++t) {
        for (size_t i = 0; i < kDimension; ++i) {
            signs[t][i] = (kClassWord[t] >> i & 1) != 0 ? -1 : 0;
        }
    }
    return signs;
}();

/// A word inside its class as nine bits that sort as words do: rank of the third octet, rank of the second,
/// highest bit of the first (its pair follows).
inline constexpr uint32_t kWordsPerClass = 512;

/// The index (cw_idx) of the word with these nine bits in class t, at t * 512 + bits.
inline constexpr std::array<uint16_t, kClasses* kWordsPerClass> kIndexInClass = [] {
    std::array<uint16_t, kClasses * kWordsPerClass> table{};
    for (size_t t = 0; t < kClasses; ++t) {
        for (size_t i = 0; i < kPairs; ++i) {
            for (size_t j = 0; j < kPairs; ++j) {
                for (uint32_t flips = 0; flips < 8; ++flips) {
                    const uint32_t word = turyn_word(t, i, j, flips);
                    const uint32_t bits =
                        octet_rank(word >> 16) << 5 | octet_rank(word >> 8 & 0xFF) << 1 | (word >> 7 & 1);
                    table[t * kWordsPerClass + bits] = static_cast<uint16_t>(golay_index(word));
                }
            }
        }
    }
    return table;
}();

/// The best word of a point so far. Values are half the squared distance less a constant, in grid steps.
struct Best {
    int32_t value;
    uint16_t code;  ///< m * 4096 + t * 512 + the nine bits of the word
};

/// What a block needs while it is searched.
struct Workspace {
    alignas(64) std::array<int16_t, kBlock * kDimension> rows{};  ///< zeros where a last vector has no point
    Bounds bounds;
    std::array<Best, kBlock> best;
    std::array<Item, kBlock + 16> items;
    std::array<uint16_t, kBlock> live;
    Group group;
    uint64_t searched = 0;  ///< items so far
};

/// The entry points of one instruction set.
struct FastKernels {
    Simd simd;  ///< what they were compiled for
    /// 24 n values onto the grid; false if one is not finite or beyond 2^20.
    bool (*to_grid)(const float* y, size_t n, int32_t* residual, int32_t* shift);
    /// Nearest cosets of n <= kBlock points, residual holding 24 n grid steps: the answers are in work.best.
    void (*search_block)(const int32_t* residual, size_t n, Workspace& work);
    /// The nearest points of n points in the cosets that search_block found.
    void (*finish)(const int32_t* residual, const int32_t* shift, const Best* best, size_t n, Nearest* out);
};

}  // namespace kaiju::lattice
