// The nearest point of all m + 2 c + 4 z is a walk through Turyn's construction (turyn.h): costs of the 16
// patterns of a group of four, of the complementary pairs of an octet, then, class by class, of the 64
// pairs of pairs. Costs are integers that carry in their low bits which choice they stand for, so that a
// minimum needs no second pass to find where it was.
#include "lattice/shell_search.h"

#include "lattice/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lattice/shell_search.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include "lattice/turyn.h"

HWY_BEFORE_NAMESPACE();
namespace kaiju::lattice::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using F = hn::CappedTag<float, kShellLanes>;
using I = hn::Rebind<int32_t, F>;
using VF = hn::Vec<F>;
using VI = hn::Vec<I>;

constexpr Simd kThisShell = HWY_TARGET == HWY_AVX3   ? Simd::avx512
                            : HWY_TARGET == HWY_AVX2 ? Simd::avx2
                            : HWY_TARGET == HWY_SSE4 ? Simd::sse4
                                                     : Simd::scalar;

/// A key's low bits: pair of the first octet (3) and whether it is complemented, the same of the second,
/// whether the third is.
constexpr int kChoiceBits = 9;
/// Costs are squares of at most 1/2, 24 of them: below 2^22 in these units.
constexpr float kUnits = 524288.0F;

/// Costs of the 16 patterns of group j of four coordinates in half m.
HWY_INLINE void group_costs(const float* y, size_t j, int m, VI* cost) {
    const F f;
    const VF quarter = hn::Set(f, 0.25F);
    const VF half = hn::Set(f, 0.5F);
    const VF limit = hn::Set(f, 4096.0F);
    VI clear[kGroupSize];
    VI set[kGroupSize];
    for (size_t i = 0; i < kGroupSize; ++i) {
        VF t = hn::LoadU(f, y + (kGroupSize * j + i) * kShellLanes);
        t = hn::Min(hn::Max(t, hn::Neg(limit)), limit);
        t = hn::Mul(hn::Sub(t, hn::Set(f, static_cast<float>(m))), quarter);
        const VF r = hn::Abs(hn::Sub(t, hn::Round(t)));
        const VF s = hn::Sub(half, r);  // to the nearest with c = 1
        clear[i] = hn::NearestInt(hn::Mul(hn::Mul(r, r), hn::Set(f, kUnits)));
        set[i] = hn::NearestInt(hn::Mul(hn::Mul(s, s), hn::Set(f, kUnits)));
    }
    const VI low[4] = {hn::Add(clear[0], clear[1]), hn::Add(set[0], clear[1]), hn::Add(clear[0], set[1]),
                       hn::Add(set[0], set[1])};
    const VI high[4] = {hn::Add(clear[2], clear[3]), hn::Add(set[2], clear[3]), hn::Add(clear[2], set[3]),
                        hn::Add(set[2], set[3])};
    for (size_t pattern = 0; pattern < 16; ++pattern) {
        cost[pattern] = hn::ShiftLeft<kChoiceBits>(hn::Add(low[pattern & 3], high[pattern >> 2]));
    }
}

HWY_INLINE void classes_of(const float* y, int m, int32_t* keys) {
    const I i32;
    VI cost[kGroups][16];
    for (size_t j = 0; j < kGroups; ++j) {
        group_costs(y, j, m, cost[j]);
    }
    // What pair j of octet o adds to a key, and what its complement adds.
    constexpr int kPairShift[3] = {0, 4, 0};
    constexpr int kFlip[3] = {8, 128, 256};
    for (size_t t = 0; t < kClasses; ++t) {
        VI pair[3][kPairs];
        for (size_t o = 0; o < 3; ++o) {
            for (size_t j = 0; j < kPairs; ++j) {
                const uint32_t octet = class_octet(t, o, j);
                const uint32_t low = octet & 15;
                const uint32_t high = octet >> 4;
                const VI plain = hn::Add(cost[2 * o][low], cost[2 * o + 1][high]);
                const VI flipped = hn::Add(hn::Add(cost[2 * o][low ^ 15], cost[2 * o + 1][high ^ 15]),
                                           hn::Set(i32, kFlip[o]));
                const int which = o == 2 ? 0 : static_cast<int>(j) << kPairShift[o];
                pair[o][j] = hn::Add(hn::Min(plain, flipped), hn::Set(i32, which));
            }
        }
        VI best = hn::Set(i32, INT32_MAX);
        for (size_t third = 0; third < kPairs; ++third) {
            VI sum = hn::Add(pair[0][0], pair[1][third]);
            for (size_t j = 1; j < kPairs; ++j) {
                sum = hn::Min(sum, hn::Add(pair[0][j], pair[1][j ^ third]));
            }
            best = hn::Min(best, hn::Add(sum, pair[2][third]));
        }
        hn::StoreU(best, i32, keys + t * kShellLanes);
    }
}

HWY_ATTR void classes(const float* y, int32_t* keys) {
    for (int m = 0; m < 2; ++m) {
        for (size_t lane = 0; lane < kShellLanes; lane += hn::MaxLanes(F())) {
            classes_of(y + lane, m, keys + static_cast<size_t>(m) * kClasses * kShellLanes + lane);
        }
    }
}

}  // namespace

const ShellKernels& shell_table() {
    static const ShellKernels table = {kThisShell, &classes};
    return table;
}

}  // namespace kaiju::lattice::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include <algorithm>
#include <cmath>

#include "lattice/simd_select.h"

namespace kaiju::lattice {

namespace {

constexpr size_t kAll = 2 * kClasses;  ///< (half, class)
/// A point outside the book is shrunk by this factor until a class is inside.
constexpr float kShrink = 0.955F;
/// After so many rounds the steps become long: the origin is always inside.
constexpr int kFineRounds = 16;
/// Classes that are tried of a point inside the book where more than the nearest is wanted, and of one
/// outside; and how many of them inside are enough.
constexpr size_t kWholeTries = 6;
constexpr size_t kTries = 10;
constexpr size_t kEnough = 1;
/// Squared norm of an aim, over that of the longest code words, from where on none of its neighbours is
/// inside.
constexpr float kSurface = 1.1F;

/// The Golay word that a key of class t stands for.
uint32_t word_of(size_t t, int32_t key) {
    const auto bits = static_cast<uint32_t>(key);
    const uint32_t flips = (bits >> 3 & 1) | (bits >> 7 & 1) << 1 | (bits >> 8 & 1) << 2;
    return turyn_word(t, bits & 7, bits >> 4 & 7, flips);
}

}  // namespace

struct ShellSearch::Lane {
    ShellPoint* out;
    size_t keep;
    size_t count = 0;
    float scale = 1;
    bool inside = false;  ///< the nearest of all is in the book
    bool done = false;

    [[nodiscard]] bool wants(float d2) const { return count < keep || d2 < out[count - 1].d2; }

    /// All points of a lane are of one round, and so of different classes: none comes twice.
    void add(const ShellPoint& point) {
        size_t at = count;
        while (at > 0 && point.d2 < out[at - 1].d2) {
            --at;
        }
        if (at == keep) {
            return;
        }
        count = std::min(count + 1, keep);
        std::copy_backward(out + at, out + count - 1, out + count);
        out[at] = point;
    }
};

ShellSearch::ShellSearch(const ShellBook& book) : ShellSearch(book, chosen_simd()) {}

ShellSearch::ShellSearch(const ShellBook& book, Simd simd) : book_(book), kernels_(shell_kernels(simd)) {
    const Rings& longest = book.rings(kSequences - 1);
    const size_t ring_size = size_t{1} << book.index_bits();
    for (const size_t ring : longest) {
        double sum = 0;
        for (size_t i = 0; i < ring_size; ++i) {
            for (const int8_t x : book.vector(1, 0, ring * ring_size + i)) {
                sum += int{x} * x;
            }
        }
        largest_norm_ += static_cast<float>(sum / static_cast<double>(ring_size));
    }
}

/// What the groups of one point may be in one half: by group, for each pair of code bits of its first two
/// coordinates and of its last two, the z nearest to the aim as ShellBook::ring wants them, and their squared
/// distance to the point itself.
struct ShellSearch::Choices {
    /// Set where a z is outside the range of the lists.
    static constexpr uint32_t kOutside = 1U << 24;

    std::array<std::array<uint32_t, 8>, kGroups> key;
    std::array<std::array<float, 8>, kGroups> d2;

    Choices(const ShellBook& book, const float* y, const float* aim, unsigned m) {
        // Adding and subtracting 1.5 * 2^23 rounds to the nearest integer, half to even.
        constexpr float kRounder = 12582912.0F;
        std::array<std::array<float, kDimension>, 2> z;
        std::array<std::array<float, kDimension>, 2> error;
        for (unsigned c = 0; c < 2; ++c) {
            const auto offset = static_cast<float>(m + 2 * c);
            for (size_t i = 0; i < kDimension; ++i) {
                z[c][i] = ((aim[i] - offset) * 0.25F + kRounder) - kRounder;
                const float e = y[i] - (offset + 4 * z[c][i]);
                error[c][i] = e * e;
            }
        }
        const auto least = static_cast<float>(book.least_z());
        const unsigned bits = book.z_bits();
        const float most = least + static_cast<float>((1U << bits) - 1);
        std::array<std::array<uint32_t, kDimension>, 2> code;
        for (unsigned c = 0; c < 2; ++c) {
            for (size_t i = 0; i < kDimension; ++i) {
                const bool inside = z[c][i] >= least && z[c][i] <= most;
                const float kept = inside ? z[c][i] : least;
                code[c][i] =
                    static_cast<uint32_t>(static_cast<int32_t>(kept - least)) + (inside ? 0 : kOutside);
            }
        }
        for (size_t j = 0; j < kGroups; ++j) {
            for (size_t pair = 0; pair < 2; ++pair) {
                const size_t i = kGroupSize * j + 2 * pair;
                for (size_t k = 0; k < 4; ++k) {
                    const uint32_t first = code[k & 1][i];
                    const uint32_t second = code[k >> 1][i + 1];
                    key[j][4 * pair + k] = ((first & ~kOutside) << (2 * pair * bits)) |
                                           ((second & ~kOutside) << ((2 * pair + 1) * bits)) |
                                           ((first | second) & kOutside);
                    d2[j][4 * pair + k] = error[k & 1][i] + error[k >> 1][i + 1];
                }
            }
        }
    }
};

void ShellSearch::take(const float* y, const float* aim, const int32_t* keys, bool whole, Lane& lane) const {
    std::array<int64_t, kAll> order;
    for (size_t c = 0; c < kAll; ++c) {
        order[c] = static_cast<int64_t>(keys[c * kShellLanes]) << 4 | static_cast<int64_t>(c);
    }
    const size_t tries = whole ? (lane.keep == 1 ? 1 : kWholeTries) : kTries;
    const std::array<Choices, 2> choices = {Choices(book_, y, aim, 0), Choices(book_, y, aim, 1)};
    bool first_inside = false;
    size_t inside = 0;
    for (size_t n = 0; n < tries && inside < kEnough + lane.keep; ++n) {
        std::swap(order[n], *std::min_element(order.begin() + static_cast<ptrdiff_t>(n), order.end()));
        const auto c = static_cast<size_t>(order[n] & 15);
        const auto m = static_cast<unsigned>(c / kClasses);
        const uint32_t golay = word_of(c % kClasses, static_cast<int32_t>(order[n] >> 4));
        std::array<uint32_t, kGroups> z;
        Rings rings;
        float d2 = 0;
        bool legal = true;
        for (size_t j = 0; legal && j < kGroups; ++j) {
            const uint32_t pattern = golay >> (kGroupSize * j) & 15;
            z[j] = choices[m].key[j][pattern & 3] | choices[m].key[j][4 + (pattern >> 2)];
            d2 += choices[m].d2[j][pattern & 3] + choices[m].d2[j][4 + (pattern >> 2)];
            rings[j] = z[j] < Choices::kOutside ? book_.ring(m, pattern, z[j]) : uint8_t{kRings};
            legal = rings[j] < kRings;
        }
        if (!legal || book_.sequence(rings) < 0) {
            continue;
        }
        ++inside;
        first_inside = first_inside || n == 0;
        if (lane.wants(d2)) {
            ShellPoint point{
                .word = static_cast<uint16_t>(golay_index(golay)), .m = static_cast<uint8_t>(m), .d2 = d2};
            const unsigned bits = book_.z_bits();
            for (size_t i = 0; i < kDimension; ++i) {
                const auto value =
                    static_cast<int>(z[i / kGroupSize] >> (bits * (i % kGroupSize)) & ((1U << bits) - 1));
                point.x[i] = static_cast<int8_t>(static_cast<int>(m + 2 * (golay >> i & 1)) +
                                                 4 * (value + book_.least_z()));
            }
            lane.add(point);
        }
    }
    // The nearest of all is inside: no other can be nearer.
    lane.inside = whole && first_inside;
}

uint32_t ShellSearch::near(const float* y, uint32_t asked, float least_scale, size_t keep, ShellPoint* out,
                           std::array<uint8_t, kShellLanes>& found) const {
    std::array<float, kDimension * kShellLanes> aims;
    std::array<int32_t, kAll * kShellLanes> keys;
    std::array<Lane, kShellLanes> lanes;
    std::array<std::array<float, kDimension>, kShellLanes> points;
    for (size_t p = 0; p < kShellLanes; ++p) {
        lanes[p] = {.out = out + keep * p, .keep = keep, .done = (asked >> p & 1) == 0};
        for (size_t i = 0; i < kDimension; ++i) {
            points[p][i] = y[i * kShellLanes + p];
        }
    }
    bool pending = asked != 0;
    for (int round = 0; pending; ++round) {
        for (size_t at = 0; at < aims.size(); ++at) {
            aims[at] = y[at] * lanes[at % kShellLanes].scale;
        }
        kernels_.classes(aims.data(), keys.data());
        pending = false;
        for (size_t p = 0; p < kShellLanes; ++p) {
            Lane& lane = lanes[p];
            if (lane.done) {
                continue;
            }
            std::array<float, kDimension> aim;
            float norm = 0;
            for (size_t i = 0; i < kDimension; ++i) {
                aim[i] = aims[i * kShellLanes + p];
                norm += aim[i] * aim[i];
            }
            take(points[p].data(), aim.data(), keys.data() + p, round == 0, lane);
            const bool fine = round < kFineRounds;
            // Far outside, the shrinking begins where the longest code words are.
            const float limit = std::sqrt(kSurface * largest_norm_ / std::max(norm, 1.0F));
            lane.scale *= fine ? std::min(kShrink, limit) : 0.5F;
            lane.done = lane.count > 0 || lane.scale < least_scale;
            pending = pending || !lane.done;
        }
    }
    uint32_t inside = 0;
    for (size_t p = 0; p < kShellLanes; ++p) {
        found[p] = static_cast<uint8_t>(lanes[p].count);
        inside |= lanes[p].inside ? 1U << p : 0;
    }
    return inside;
}

const ShellKernels& shell_kernels(Simd simd) {
    // NOLINTNEXTLINE(bugprone-branch-clone): where scalar is all that was compiled
    KAIJU_RETURN_FOR(simd, shell_table)
}

}  // namespace kaiju::lattice

#endif  // HWY_ONCE
