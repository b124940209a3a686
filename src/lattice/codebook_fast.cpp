// The nearest code word of the finite code book, batched: the two passes of the fast decoder over four halves
// (flip, m) with costs and repairs from closed forms of their own. docs/leech-decoder.md.

#include "lattice/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lattice/codebook_fast.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <limits>

#include "lattice/codebook_fast.h"
#include "lattice/fast_bounds-inl.h"
#include "lattice/fast_items-inl.h"
#include "lattice/golay.h"

HWY_BEFORE_NAMESPACE();
namespace kaiju::lattice::HWY_NAMESPACE {
namespace {

using D8 = hn::CappedTag<int32_t, 8>;
using V8 = hn::Vec<D8>;

/// Points this far out are left to the wider search.
constexpr float kFarthest = 32;
/// Keys hold 64 units either way. An octet's sum and one repair stay within 55 + 8; what is kept of an octet
/// is at most one repair (of a sum and its negative one is not positive), so three of them lie between -55
/// and 24.
constexpr int32_t kWidestSum = 55 * kGridUnit;
constexpr int32_t kLargestRepair = 8 * kGridUnit;

/// Costs of one half. With t = v - 2c, z is 0 up to |t| = 2 and the sign of t beyond; in halves of the
/// squared distance the other parity costs 4 ||t| - 2| more, and e = k (k - v) comes to min(0, 4 - 2 |t|),
/// less 1 + t where c = 1. Returns false where the lanes of the second pass are too narrow.
HWY_INLINE bool fill_half(const std::array<int32_t, kDimension>& grid, bool flip, int32_t m, Parity parity,
                          size_t point, int16_t* HWY_RESTRICT rows, CodebookHalf& half) {
    const D8 d;
    const hn::Rebind<int16_t, D8> d16;
    const V8 zero = hn::Zero(d);
    const V8 one = hn::Set(d, kGridUnit);
    const V8 two = hn::Set(d, 2 * kGridUnit);
    const V8 offset = hn::Set(d, m * kGridUnit);
    const V8 limit = hn::Set(d, kLargestRepair);
    V8 constant = zero;
    V8 sizes = zero;
    V8 odd = zero;
    half.turns = 0;
    bool fits = true;
    for (size_t octet = 0; octet < kDimension; octet += 8) {
        V8 easiest = hn::Set(d, std::numeric_limits<int32_t>::max());
        for (size_t i = octet; i < octet + 8; i += hn::MaxLanes(d)) {
            const V8 y = hn::LoadU(d, grid.data() + i);
            const V8 v = hn::Sub(flip ? hn::Neg(y) : y, offset);
            const V8 t = hn::Sub(v, two);
            const V8 past0 = hn::Sub(two, hn::Abs(v));  // negative where z is not 0
            const V8 past1 = hn::Sub(two, hn::Abs(t));
            const V8 low0 = hn::Min(hn::ShiftLeft<1>(past0), zero);
            const V8 low1 = hn::Min(hn::ShiftLeft<1>(past1), zero);
            const V8 e1 = hn::Sub(hn::Sub(low1, one), t);
            const V8 s = hn::Sub(low0, e1);
            const V8 repair0 = hn::ShiftLeft<2>(hn::Abs(past0));
            const V8 repair1 = hn::ShiftLeft<2>(hn::Abs(past1));
            constant =
                hn::Add(constant, hn::Add(hn::Add(low0, e1),
                                          m == 0 ? zero : hn::Sub(hn::Sub(zero, v), hn::ShiftRight<1>(one))));
            sizes = hn::Add(sizes, hn::Abs(s));
            const V8 turn = hn::Xor(past0, past1);
            odd = hn::Xor(odd, past0);
            uint8_t bits[8] = {};
            hn::StoreMaskBits(d, hn::Lt(turn, zero), bits);
            half.turns |= static_cast<uint32_t>(bits[0]) << i;
            easiest = hn::Min(easiest, hn::Max(repair0, repair1));
            hn::StoreU(s, d, half.s.data() + i);
            if (parity == Parity::kept) {
                hn::StoreU(hn::Min(repair0, limit), d, half.clear.data() + i);
                hn::StoreU(hn::Min(repair1, limit), d, half.set.data() + i);
            } else {
                hn::StoreU(zero, d, half.clear.data() + i);
                hn::StoreU(zero, d, half.set.data() + i);
            }
            const V8 rounded = hn::ShiftRight<7>(hn::Add(s, hn::Set(d, 64)));
            hn::StoreU(hn::DemoteTo(d16, rounded), d16, rows + octet_place(point, i / 8) + i % 8);
        }
        // With one coordinate in every octet that is cheap to repair, the limit never shows.
        fits = fits && hn::GetLane(hn::MinOfLanes(d, easiest)) <= kLargestRepair;
    }
    half.odd = static_cast<uint32_t>(hn::CountTrue(d, hn::Lt(odd, zero)) & 1) ^ static_cast<uint32_t>(m);
    half.constant = hn::GetLane(hn::SumOfLanes(d, constant));
    return fits && hn::GetLane(hn::SumOfLanes(d, sizes)) <= kWidestSum;
}

/// Puts points on the grid and fills their halves.
HWY_ATTR HWY_NOINLINE void fill_points(const float* HWY_RESTRICT y, size_t n, Parity parity,
                                       CodebookWorkspace& work) {
    const hn::CappedTag<float, 8> df;
    const D8 d;
    for (size_t p = 0; p < n; ++p) {
        auto near = hn::Le(hn::Zero(df), hn::Zero(df));
        for (size_t i = 0; i < kDimension; i += hn::MaxLanes(d)) {
            const auto v = hn::LoadU(df, y + p * kDimension + i);
            near = hn::And(near, hn::Le(hn::Abs(v), hn::Set(df, kFarthest)));
            const auto held = hn::Max(hn::Min(v, hn::Set(df, kFarthest)), hn::Set(df, -kFarthest));
            hn::StoreU(hn::NearestInt(hn::Mul(held, hn::Set(df, static_cast<float>(kGridUnit)))), d,
                       work.grid[p].data() + i);
        }
        bool usable = hn::AllTrue(df, near);
        int32_t least = std::numeric_limits<int32_t>::max();
        for (size_t h = 0; h < kCodebookHalves; ++h) {
            CodebookHalf& half = work.halves[p][h];
            usable &= fill_half(work.grid[p], (h & 2) != 0, static_cast<int32_t>(h & 1), parity, p,
                                work.rows[h].data(), half);
            least = std::min(least, half.constant);
        }
        work.usable[p] = usable;
        work.least[p] = least;
        for (size_t h = 0; h < kCodebookHalves; ++h) {
            work.constants[h][p] =
                static_cast<int16_t>(std::min((work.halves[p][h].constant - least) >> 7, 32000));
        }
    }
}

HWY_ATTR HWY_NOINLINE void find_codebook_bounds(size_t n, CodebookWorkspace& work) {
    const D16 d;
    const size_t lanes = hn::MaxLanes(D16());
    HWY_ALIGN int16_t nibbles[3 * 16 * hn::MaxLanes(D16())];
    for (size_t begin = 0; begin < n; begin += lanes) {
        const V16 none = hn::Set(d, 32767);
        Ranking ranking{none, none, none};
        for (size_t h = 0; h < kCodebookHalves; ++h) {
            for (size_t o = 0; o < 3; ++o) {
                V16 s[8];
                load_octet(d, work.rows[h].data() + begin * kDimension + o * 8 * lanes, s);
                nibble_sums(s, nibbles + 16 * o * lanes);
                nibble_sums(s + 4, nibbles + (16 * o + 8) * lanes);
            }
            bound_classes<5>(nibbles, hn::LoadU(d, work.constants[h].data() + begin), static_cast<int>(h),
                             begin, ranking, work.all);
        }
        hn::StoreU(ranking.first, d, work.ranked[0] + begin);
        hn::StoreU(ranking.second, d, work.ranked[1] + begin);
        hn::StoreU(ranking.third, d, work.ranked[2] + begin);
    }
}

/// Stores one item with the signs of its class: they turn s and exchange the two repairs.
HWY_INLINE void store_codebook_item(const CodebookHalf& half, size_t t, size_t at, Group& group) {
    const D8 d;
    const int32_t* HWY_RESTRICT signs = kClassSigns[t].data();
    for (size_t i = 0; i < kDimension; i += hn::MaxLanes(d)) {
        const V8 sign = hn::LoadU(d, signs + i);
        const V8 s = hn::LoadU(d, half.s.data() + i);
        const V8 clear = hn::LoadU(d, half.clear.data() + i);
        const V8 set = hn::LoadU(d, half.set.data() + i);
        const auto turned = hn::MaskFromVec(sign);
        store_quarters(d, hn::ShiftLeft<kKeyShift>(hn::Sub(hn::Xor(s, sign), sign)), at, i, group.s.data());
        store_quarters(d, hn::ShiftLeft<kKeyShift>(hn::IfThenElse(turned, set, clear)), at, i,
                       group.clear.data());
        store_quarters(d, hn::ShiftLeft<kKeyShift>(hn::IfThenElse(turned, clear, set)), at, i,
                       group.set.data());
    }
    group.bits[at] = static_cast<int32_t>(item_bits(t, half.turns, half.odd));
}

HWY_ATTR HWY_NOINLINE void search_codebook_items(const Item* items, size_t n, CodebookWorkspace& work) {
    Group& group = work.group;
    const size_t lanes = hn::MaxLanes(D32());
    for (size_t begin = 0; begin < n; begin += kGroup) {
        const size_t count = std::min(kGroup, n - begin);
        for (size_t k = 0; k < count || k % lanes != 0; ++k) {  // whole vectors: repeat the last
            const Item item = items[begin + std::min(k, count - 1)];
            store_codebook_item(work.halves[item.point][item.m], item.t, k, group);
        }
        search_group<true>(group, count);
        for (size_t k = 0; k < count; ++k) {
            const Item item = items[begin + k];
            const int32_t value = (group.keys[k] >> kKeyShift) + work.halves[item.point][item.m].constant;
            const auto code = static_cast<uint16_t>(item.m << 12 | item.t << 9 | (group.keys[k] & 511));
            Best& known = work.best[item.point];
            if (value < known.value ||
                (value == known.value &&
                 ((code ^ known.code) >> 12 != 0
                      ? code < known.code
                      : kIndexInClass[code & 4095] < kIndexInClass[known.code & 4095]))) {
                known = {value, code};
            }
        }
    }
}

/// z, flip and distance of the code word that `code` names, as best_in_coset of codebook_search.cpp has them.
HWY_INLINE void finish_word(const std::array<int32_t, kDimension>& grid, uint16_t code, Parity parity,
                            CodebookWord& out) {
    const D8 d;
    constexpr size_t kLanes = hn::MaxLanes(D8());
    constexpr size_t kParts = kDimension / kLanes;
    out.flip = (code >> 13 & 1) != 0;
    out.m = code >> 12 & 1;
    out.word = kIndexInClass[code & 4095];
    const uint32_t word = kGolay[out.word];
    const V8 zero = hn::Zero(d);
    const V8 two = hn::Set(d, 2 * kGridUnit);
    HWY_ALIGN int32_t z[kDimension];
    HWY_ALIGN int32_t rest[kDimension];
    HWY_ALIGN int32_t bits[kDimension];
    for (size_t i = 0; i < kDimension; ++i) {
        bits[i] = static_cast<int32_t>(word >> i & 1);
    }
    V8 odd = zero;
    V8 least = hn::Set(d, std::numeric_limits<int32_t>::max());
    V8 more[kParts];
    for (size_t k = 0; k < kParts; ++k) {
        const size_t i = k * kLanes;
        const V8 y = hn::LoadU(d, grid.data() + i);
        const V8 base = hn::Add(hn::Set(d, out.m), hn::ShiftLeft<1>(hn::Load(d, bits + i)));
        const V8 t = hn::Sub(out.flip ? hn::Neg(y) : y, hn::ShiftLeft<16>(base));
        const V8 q = hn::ShiftRight<18>(hn::Add(t, hn::Set(d, 2 * kGridUnit - 1)));
        const V8 trit = hn::Max(hn::Min(q, hn::Set(d, 1)), hn::Set(d, -1));
        odd = hn::Xor(odd, trit);
        more[k] = hn::Abs(hn::Sub(two, hn::Abs(t)));  // what the other parity costs more, over 8
        least = hn::Min(least, more[k]);
        hn::Store(trit, d, z + i);
        hn::Store(t, d, rest + i);
    }
    const size_t odd_lanes = hn::CountTrue(d, hn::Lt(hn::ShiftLeft<31>(odd), zero));
    if (parity == Parity::kept && ((odd_lanes ^ out.m) & 1) != 0) {
        const V8 smallest = hn::MinOfLanes(d, least);
        for (size_t k = 0; k < kParts; ++k) {
            const intptr_t lane = hn::FindFirstTrue(d, hn::Eq(more[k], smallest));
            if (lane >= 0) {
                const size_t i = k * kLanes + static_cast<size_t>(lane);
                z[i] = z[i] != 0 ? 0 : rest[i] > 0 ? 1 : -1;
                break;
            }
        }
    }
    int64_t d2 = 0;  // |r| < 2^22: exact
    for (size_t i = 0; i < kDimension; ++i) {
        const int64_t r = rest[i] - z[i] * 4 * kGridUnit;
        d2 += r * r;
        out.z[i] = static_cast<int8_t>(z[i]);
    }
    out.d2 = static_cast<double>(d2) * 0x1p-32;
}

HWY_ATTR void search(const float* y, size_t n, Parity parity, CodebookWorkspace& work, CodebookWord* out) {
    fill_points(y, n, parity, work);
    find_codebook_bounds(n, work);
    const auto item_of = [](size_t point, int16_t key) {
        return Item{static_cast<uint16_t>(point), static_cast<uint8_t>(key >> 3 & 3),
                    static_cast<uint8_t>(key & 7)};
    };
    const auto could_win = [&](size_t point, int16_t key) {
        return ((key & ~31) - kCodebookSlack) * (kGridUnit / 512) + work.least[point] <=
               work.best[point].value;
    };
    size_t live = 0;
    for (size_t p = 0; p < n; ++p) {
        work.best[p] = {std::numeric_limits<int32_t>::max(), 0};
        work.live[live] = static_cast<uint16_t>(p);
        work.items[live] = item_of(p, work.ranked[0][p]);
        live += work.usable[p] ? 1 : 0;
    }
    search_codebook_items(work.items.data(), live, work);
    for (size_t rank = 1; rank < work.ranked.size(); ++rank) {
        size_t kept = 0;
        for (size_t k = 0; k < live; ++k) {
            const size_t p = work.live[k];
            const int16_t key = work.ranked[rank][p];
            work.live[kept] = static_cast<uint16_t>(p);
            work.items[kept] = item_of(p, key);
            kept += could_win(p, key) ? 1 : 0;
        }
        live = kept;
        search_codebook_items(work.items.data(), live, work);
    }
    size_t rest = 0;
    for (size_t k = 0; k < live; ++k) {
        const size_t p = work.live[k];
        for (const auto& keys : work.all) {
            if (keys[p] > work.ranked.back()[p] && could_win(p, keys[p])) {
                work.items[rest++] = item_of(p, keys[p]);
            }
        }
        if (rest + 32 > work.items.size()) {
            search_codebook_items(work.items.data(), rest, work);
            rest = 0;
        }
    }
    search_codebook_items(work.items.data(), rest, work);
    for (size_t p = 0; p < n; ++p) {
        if (work.usable[p]) {
            finish_word(work.grid[p], work.best[p].code, parity, out[p]);
        }
    }
}

}  // namespace

const CodebookKernels& kernels() {
    static const CodebookKernels table = {kThis, &search};
    return table;
}

}  // namespace kaiju::lattice::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "lattice/simd_select.h"

namespace kaiju::lattice {

const CodebookKernels& codebook_kernels(Simd simd) {
    // NOLINTNEXTLINE(bugprone-branch-clone): where scalar is all that was compiled
    KAIJU_RETURN_FOR(simd, kernels)
}

}  // namespace kaiju::lattice

#endif  // HWY_ONCE
