// The nearest point of all m + 2 c + 4 z is a walk through Turyn's construction (turyn.h): costs of the 16
// patterns of a group of four, of the complementary pairs of an octet, then, class by class, of the 64
// pairs of pairs. Costs are integers that carry in their low bits which choice they stand for, so that a
// minimum needs no second pass to find where it was.
#include "lattice/shell_kernels.h"

#include "lattice/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lattice/shell_kernels.cpp"
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

/// z of the nearest m + 2 c + 4 z to an aim, as an offset from range.least_z with kShellOutside where it is
/// out of the range, and the squared distance of that point to y.
struct Nearest {
    VI code;
    VF d2;
};

HWY_INLINE Nearest nearest(VF y, VF aim, int m, int c, const ShellRange& range) {
    const F f;
    const I i32;
    const VF offset = hn::Set(f, static_cast<float>(m + 2 * c));
    const VF least = hn::Set(f, static_cast<float>(range.least_z));
    const VF most = hn::Set(f, static_cast<float>(range.least_z + (1 << range.z_bits) - 1));
    const VF z = hn::Round(hn::Mul(hn::Sub(aim, offset), hn::Set(f, 0.25F)));
    const VF error = hn::Sub(y, hn::Add(offset, hn::Mul(hn::Set(f, 4.0F), z)));
    const auto inside = hn::And(hn::Ge(z, least), hn::Le(z, most));
    const VI code = hn::ConvertTo(i32, hn::Sub(hn::IfThenElse(inside, z, least), least));
    return {
        .code = hn::Or(code, hn::IfThenZeroElse(hn::RebindMask(i32, inside), hn::Set(i32, kShellOutside))),
        .d2 = hn::Mul(error, error)};
}

HWY_INLINE void choices_of(const float* y, const float* aim, int m, const ShellRange& range,
                           ShellChoices& out, size_t lane) {
    const F f;
    const I i32;
    const VI place = hn::Set(i32, kShellOutside - 1);
    for (size_t j = 0; j < kGroups; ++j) {
        for (size_t pair = 0; pair < 2; ++pair) {
            Nearest at[2][2];  // coordinate, code bit
            for (size_t i = 0; i < 2; ++i) {
                const size_t row = (kGroupSize * j + 2 * pair + i) * kShellLanes;
                for (int c = 0; c < 2; ++c) {
                    at[i][c] = nearest(hn::LoadU(f, y + row), hn::LoadU(f, aim + row), m, c, range);
                }
            }
            const auto shift = static_cast<int>(2 * pair * range.z_bits);
            const auto next = static_cast<int>(shift + range.z_bits);
            for (size_t k = 0; k < 4; ++k) {
                const Nearest& first = at[0][k & 1];
                const Nearest& second = at[1][k >> 1];
                const VI z = hn::Or(hn::ShiftLeftSame(hn::And(first.code, place), shift),
                                    hn::ShiftLeftSame(hn::And(second.code, place), next));
                const VI outside = hn::AndNot(place, hn::Or(first.code, second.code));
                hn::StoreU(hn::Or(z, outside), i32, out.key[j][4 * pair + k].data() + lane);
                hn::StoreU(hn::Add(first.d2, second.d2), f, out.d2[j][4 * pair + k].data() + lane);
            }
        }
    }
}

HWY_ATTR void choices(const float* y, const float* aim, const ShellRange& range, ShellChoices* out) {
    for (int m = 0; m < 2; ++m) {
        for (size_t lane = 0; lane < kShellLanes; lane += hn::MaxLanes(F())) {
            choices_of(y + lane, aim + lane, m, range, out[m], lane);
        }
    }
}

}  // namespace

const ShellKernels& shell_table() {
    static const ShellKernels table = {kThisShell, &classes, &choices};
    return table;
}

}  // namespace kaiju::lattice::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "lattice/simd_select.h"

namespace kaiju::lattice {

const ShellKernels& shell_kernels(Simd simd) {
    // NOLINTNEXTLINE(bugprone-branch-clone): where scalar is all that was compiled
    KAIJU_RETURN_FOR(simd, shell_table)
}

}  // namespace kaiju::lattice

#endif  // HWY_ONCE
