// First pass of the fast decoder: for each point a lower bound on every (half, class) pair, in 16-bit lanes,
// one point per lane. Included once per instruction set (fast.cpp).
//
// The bound of a class is the least value of its words when the parity of Σ q is ignored: with S_o[j] the sum
// over octet o for pair j, a complement only changes its sign, so it is -max (|S_0[i]| + |S_1[j]| +
// |S_2[i^j]|).

#if defined(KAIJU_LATTICE_FAST_BOUNDS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KAIJU_LATTICE_FAST_BOUNDS_INL_H_
#undef KAIJU_LATTICE_FAST_BOUNDS_INL_H_
#else
#define KAIJU_LATTICE_FAST_BOUNDS_INL_H_
#endif

#include <hwy/highway.h>

#include "lattice/fast.h"
#include "lattice/turyn.h"

HWY_BEFORE_NAMESPACE();
namespace kaiju::lattice::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using D16 = hn::ScalableTag<int16_t>;
using V16 = hn::Vec<D16>;

/// Where octet o of point p lies among the 16-bit rows: such that whole vectors hold the octets of points p,
/// p + 8, p + 16, ... and an 8 x 8 transposition inside 128-bit blocks finishes.
HWY_INLINE size_t octet_place(size_t p, size_t o) {
    const size_t lanes = hn::MaxLanes(D16());
    if constexpr (hn::MaxLanes(D16()) < 8) {
        return p * kDimension + o * 8;
    } else {
        const size_t r = p % lanes;
        return p / lanes * lanes * kDimension + ((o * 8 + r % 8) * (lanes / 8) + r / 8) * 8;
    }
}

/// Coordinates modulo 4 in steps of 2^-14, 16 bits each: the wrap of the lanes is the lattice's own.
HWY_MAYBE_UNUSED HWY_ATTR HWY_NOINLINE void pack_rows(const int32_t* HWY_RESTRICT residual, size_t n,
                                                      int16_t* HWY_RESTRICT rows) {
    const hn::CappedTag<int32_t, 8> d;
    const hn::Rebind<int16_t, decltype(d)> d16;
    for (size_t p = 0; p < n; ++p) {
        for (size_t i = 0; i < kDimension; i += hn::MaxLanes(d)) {
            const auto v = hn::LoadU(d, residual + p * kDimension + i);
            const auto low = hn::ShiftRight<16>(hn::ShiftLeft<14>(v));
            hn::StoreU(hn::DemoteTo(d16, low), d16, rows + octet_place(p, i / 8) + i % 8);
        }
    }
}

/// The eight coordinates of one octet, of as many points as there are lanes. (Calls without `hn::` are to
/// what one-lane targets lack: found when used.)
template <class D>
HWY_INLINE void load_octet(D d, const int16_t* HWY_RESTRICT rows, hn::Vec<D>* HWY_RESTRICT out) {
    const size_t lanes = hn::MaxLanes(D());
    if constexpr (hn::MaxLanes(D()) < 8) {
        for (size_t i = 0; i < 8; ++i) {
            out[i] = hn::Load(d, rows + i);
        }
    } else {
        const hn::RepartitionToWide<D> d32;
        const hn::RepartitionToWide<decltype(d32)> d64;
        using V = hn::Vec<D>;
        using W = hn::Vec<decltype(d32)>;
        V row[8];
        for (size_t k = 0; k < 8; ++k) {
            row[k] = hn::Load(d, rows + k * lanes);
        }
        W pairs[8];  // [k / 2 * 2 + half]: values 4 half .. 4 half + 3 of rows k, k + 1
        for (size_t k = 0; k < 8; k += 2) {
            pairs[k] = hn::BitCast(d32, InterleaveLower(d, row[k], row[k + 1]));
            pairs[k + 1] = hn::BitCast(d32, InterleaveUpper(d, row[k], row[k + 1]));
        }
        for (size_t half = 0; half < 2; ++half) {
            for (size_t part = 0; part < 2; ++part) {
                const auto quad = [&](size_t k) {
                    return part == 0
                               ? hn::BitCast(d64, InterleaveLower(d32, pairs[k + half], pairs[k + 2 + half]))
                               : hn::BitCast(d64, InterleaveUpper(d32, pairs[k + half], pairs[k + 2 + half]));
                };
                const auto first = quad(0);
                const auto second = quad(4);
                out[4 * half + 2 * part] = hn::BitCast(d, InterleaveLower(d64, first, second));
                out[4 * half + 2 * part + 1] = hn::BitCast(d, InterleaveUpper(d64, first, second));
            }
        }
    }
}

/// The sums of four coordinates for the 8 patterns of code bits whose highest bit is clear; the others are
/// negatives.
HWY_INLINE void nibble_sums(const V16* HWY_RESTRICT s, int16_t* HWY_RESTRICT out) {
    const D16 d;
    const size_t lanes = hn::MaxLanes(D16());
    const V16 p = hn::Add(s[0], s[1]);
    const V16 q = hn::Sub(s[0], s[1]);
    const V16 r = hn::Add(s[2], s[3]);
    const V16 w = hn::Sub(s[3], s[2]);
    // Bits 1, 0 = 00: p, 01: -q, 10: q, 11: -p; bit 2 clear: r, set: w.
    hn::Store(hn::Add(r, p), d, out);
    hn::Store(hn::Sub(r, q), d, out + 1 * lanes);
    hn::Store(hn::Add(r, q), d, out + 2 * lanes);
    hn::Store(hn::Sub(r, p), d, out + 3 * lanes);
    hn::Store(hn::Add(w, p), d, out + 4 * lanes);
    hn::Store(hn::Sub(w, q), d, out + 5 * lanes);
    hn::Store(hn::Add(w, q), d, out + 6 * lanes);
    hn::Store(hn::Sub(w, p), d, out + 7 * lanes);
}

/// |S| of the eight pairs of class t in octet o, from the nibble sums of the octet (16 vectors).
template <size_t kClass, size_t kOctet>
HWY_INLINE void pair_sizes(const int16_t* HWY_RESTRICT nibbles, int16_t* HWY_RESTRICT sizes) {
    const D16 d;
    const size_t lanes = hn::MaxLanes(D16());
#pragma GCC unroll 4
    for (size_t j = 0; j < 4; ++j) {
        // Pairs j and j + 4 differ in the upper nibble's sign only: sum and difference of the same two.
        const uint32_t octet = class_octet(kClass, kOctet, j);
        const uint32_t low = octet & 15;
        const uint32_t high = octet >> 4;
        const bool opposite = (low >= 8) != (high >= 8);
        const V16 a = hn::Load(d, nibbles + (low < 8 ? low : 15 - low) * lanes);
        const V16 b = hn::Load(d, nibbles + (8 + (high < 8 ? high : 15 - high)) * lanes);
        hn::Store(hn::Abs(hn::Add(a, b)), d, sizes + (opposite ? j + 4 : j) * lanes);
        hn::Store(hn::Abs(hn::Sub(a, b)), d, sizes + (opposite ? j : j + 4) * lanes);
    }
}

/// max over pairs of |S_0[i]| + |S_1[j]| + |S_2[i^j]| of one class. In tiles of 4 x 4 pairs, so that a value
/// is loaded twice and not eight times.
HWY_INLINE V16 widest(const int16_t* HWY_RESTRICT sizes) {
    const D16 d;
    const size_t lanes = hn::MaxLanes(D16());
    const int16_t* HWY_RESTRICT second = sizes + kPairs * lanes;
    const int16_t* HWY_RESTRICT third = second + kPairs * lanes;
    V16 best = hn::Zero(d);
#pragma GCC unroll 2
    for (size_t upper = 0; upper < 8; upper += 4) {
        V16 pair[4] = {best, best, best, best};
#pragma GCC unroll 2
        for (size_t tile = 0; tile < 8; tile += 4) {
            V16 a[4];
            V16 b[4];
#pragma GCC unroll 4
            for (size_t i = 0; i < 4; ++i) {
                a[i] = hn::Load(d, sizes + (tile + i) * lanes);
                b[i] = hn::Load(d, second + ((tile ^ upper) + i) * lanes);
            }
#pragma GCC unroll 4
            for (size_t k = 0; k < 4; ++k) {
#pragma GCC unroll 4
                for (size_t i = 0; i < 4; ++i) {
                    const V16 sum = hn::Add(a[i], b[i ^ k]);
                    pair[k] = tile + i == 0 ? sum : hn::Max(pair[k], sum);
                }
            }
        }
#pragma GCC unroll 4
        for (size_t k = 0; k < 4; ++k) {
            best = hn::Max(best, hn::Add(pair[k], hn::Load(d, third + (upper + k) * lanes)));
        }
    }
    return best;
}

/// The keys of one point per lane, the least three kept.
struct Ranking {
    V16 first;
    V16 second;
    V16 third;

    HWY_INLINE void add(V16 key) {
        const V16 not_first = hn::Max(first, key);
        first = hn::Min(first, key);
        third = hn::Min(third, hn::Max(second, not_first));
        second = hn::Min(second, not_first);
    }
};

/// A class's key: offset less its widest sum, the low kTagBits bits replaced by 8 half + class.
template <int kTagBits, size_t kClass, class Keys>
HWY_INLINE void bound_class(const int16_t* HWY_RESTRICT nibbles, V16 offset, int half, size_t begin,
                            Ranking& ranking, Keys& all) {
    const D16 d;
    const size_t lanes = hn::MaxLanes(D16());
    HWY_ALIGN int16_t sizes[kDimension * hn::MaxLanes(D16())];
    pair_sizes<kClass, 0>(nibbles, sizes);
    pair_sizes<kClass, 1>(nibbles + 16 * lanes, sizes + kPairs * lanes);
    pair_sizes<kClass, 2>(nibbles + 32 * lanes, sizes + 2 * kPairs * lanes);
    const auto tag = static_cast<int16_t>(half * 8 + static_cast<int>(kClass));
    const V16 rounded =
        hn::And(hn::Sub(offset, widest(sizes)), hn::Set(d, static_cast<int16_t>(-(1 << kTagBits))));
    const V16 key = hn::Or(rounded, hn::Set(d, tag));
    hn::StoreU(key, d, all[static_cast<size_t>(tag)] + begin);
    ranking.add(key);
}

template <int kTagBits, class Keys>
HWY_INLINE void bound_classes(const int16_t* HWY_RESTRICT nibbles, V16 offset, int half, size_t begin,
                              Ranking& ranking, Keys& all) {
    bound_class<kTagBits, 0>(nibbles, offset, half, begin, ranking, all);
    bound_class<kTagBits, 1>(nibbles, offset, half, begin, ranking, all);
    bound_class<kTagBits, 2>(nibbles, offset, half, begin, ranking, all);
    bound_class<kTagBits, 3>(nibbles, offset, half, begin, ranking, all);
    bound_class<kTagBits, 4>(nibbles, offset, half, begin, ranking, all);
    bound_class<kTagBits, 5>(nibbles, offset, half, begin, ranking, all);
    bound_class<kTagBits, 6>(nibbles, offset, half, begin, ranking, all);
    bound_class<kTagBits, 7>(nibbles, offset, half, begin, ranking, all);
}

/// Bounds of `n` points, rows as pack_rows left them.
HWY_MAYBE_UNUSED HWY_ATTR HWY_NOINLINE void find_bounds(const int16_t* HWY_RESTRICT rows, size_t n,
                                                        Bounds& out) {
    const D16 d;
    const size_t lanes = hn::MaxLanes(D16());
    HWY_ALIGN int16_t nibbles[3 * 16 * hn::MaxLanes(D16())];
    const V16 unit = hn::Set(d, 1 << 14);
    const V16 less_unit = hn::Set(d, 8 - (1 << 14));
    for (size_t begin = 0; begin < n; begin += lanes) {
        const V16 none = hn::Set(d, 32767);
        Ranking ranking{none, none, none};
        V16 offset = hn::Set(d, -12 * 1024);
        V16 u[kDimension];
        for (size_t o = 0; o < 3; ++o) {
            load_octet(d, rows + begin * kDimension + o * 8 * lanes, u + 8 * o);
        }
        for (int m = 0; m < 2; ++m) {
            for (size_t o = 0; o < 3; ++o) {
                V16 s[8];
#pragma GCC unroll 8
                for (size_t i = 0; i < 8; ++i) {
                    // |u| - 1 at 2^-10, rounded; -2^15 stands for 2^15 and comes out right by the wrap.
                    const V16 v = u[8 * o + i];
                    s[i] = hn::ShiftRight<4>(hn::Add(hn::Abs(v), less_unit));
                    if (m == 0) {
                        offset = hn::Add(offset, hn::Abs(s[i]));
                        u[8 * o + i] = hn::Sub(v, unit);
                    }
                }
                nibble_sums(s, nibbles + 16 * o * lanes);
                nibble_sums(s + 4, nibbles + (16 * o + 8) * lanes);
            }
            bound_classes<4>(nibbles, offset, m, begin, ranking, out.all);
            offset = hn::Zero(d);
        }
        hn::StoreU(ranking.first, d, out.ranked[0] + begin);
        hn::StoreU(ranking.second, d, out.ranked[1] + begin);
        hn::StoreU(ranking.third, d, out.ranked[2] + begin);
    }
}

}  // namespace
}  // namespace kaiju::lattice::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
