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

/// The sums of four coordinates for each of the 16 patterns of their code bits.
HWY_INLINE void nibble_sums(V16 s0, V16 s1, V16 s2, V16 s3, V16* HWY_RESTRICT out) {
    const V16 p = hn::Add(s0, s1);
    const V16 q = hn::Sub(s0, s1);
    const V16 r = hn::Add(s2, s3);
    const V16 u = hn::Sub(s2, s3);
    // Bit 0 clear, bit 1 clear: p; bit 0 set: -q; bit 1 set: q; both: -p. The same for bits 2 and 3.
    out[0] = hn::Add(p, r);
    out[1] = hn::Sub(r, q);
    out[2] = hn::Add(q, r);
    out[3] = hn::Sub(r, p);
    out[4] = hn::Sub(p, u);
    out[5] = hn::Neg(hn::Add(q, u));
    out[6] = hn::Sub(q, u);
    out[7] = hn::Neg(hn::Add(p, u));
    for (size_t x = 0; x < 8; ++x) {
        out[15 - x] = hn::Neg(out[x]);
    }
}

/// |S| of the eight pairs of every class in octet o: size[t * 24 + j] vectors on.
template <size_t kOctet>
HWY_INLINE void octet_sizes(const V16* HWY_RESTRICT s, int16_t* HWY_RESTRICT size) {
    const D16 d;
    const size_t lanes = hn::Lanes(d);
    V16 low[16];
    V16 high[16];
    nibble_sums(s[0], s[1], s[2], s[3], low);
    nibble_sums(s[4], s[5], s[6], s[7], high);
#pragma GCC unroll 8
    for (size_t t = 0; t < kClasses; ++t) {
#pragma GCC unroll 8
        for (size_t j = 0; j < kPairs; ++j) {
            // Of a pair, the member whose upper half starts with a clear bit: half of `high` is never needed.
            const uint32_t member = class_octet(t, kOctet, j);
            const uint32_t octet = (member & 0x80) != 0 ? member ^ 0xFF : member;
            const V16 sum = hn::Add(low[octet & 15], high[octet >> 4]);
            hn::Store(hn::Abs(sum), d, size + (t * 24 + j) * lanes);
        }
    }
}

/// max over pairs of |S_0[i]| + |S_1[j]| + |S_2[i^j]| of one class.
HWY_INLINE V16 widest(const int16_t* HWY_RESTRICT size) {
    const D16 d;
    const size_t lanes = hn::Lanes(d);
    V16 a[kPairs];
#pragma GCC unroll 8
    for (size_t i = 0; i < kPairs; ++i) {
        a[i] = hn::Load(d, size + i * lanes);
    }
    const int16_t* HWY_RESTRICT b = size + kPairs * lanes;
    const int16_t* HWY_RESTRICT c = b + kPairs * lanes;
    V16 best = hn::Zero(d);
#pragma GCC unroll 8
    for (size_t k = 0; k < kPairs; ++k) {
        V16 pair = hn::Add(a[0], hn::Load(d, b + k * lanes));
#pragma GCC unroll 8
        for (size_t i = 1; i < kPairs; ++i) {
            pair = hn::Max(pair, hn::Add(a[i], hn::Load(d, b + (i ^ k) * lanes)));
        }
        best = hn::Max(best, hn::Add(pair, hn::Load(d, c + k * lanes)));
    }
    return best;
}

/// Bounds of `n` points (padded to whole vectors by the caller's arrays). residual: 24 grid steps per point.
HWY_ATTR HWY_NOINLINE void find_bounds(const int32_t* HWY_RESTRICT residual, size_t n, Bounds& out) {
    const D16 d;
    const size_t lanes = hn::Lanes(d);
    HWY_ALIGN int16_t u[kDimension * hn::MaxLanes(D16())];
    HWY_ALIGN int16_t size[kClasses * kDimension * hn::MaxLanes(D16())];
    const V16 unit = hn::Set(d, 1 << 14);
    const V16 tag_mask = hn::Set(d, static_cast<int16_t>(~15));
    for (size_t begin = 0; begin < n; begin += lanes) {
        // A coordinate modulo 4 is what 16 bits hold at 2^-14: the wrap of the lanes is the lattice's own.
        for (size_t p = 0; p < lanes; ++p) {
            const int32_t* HWY_RESTRICT row = residual + std::min(begin + p, n - 1) * kDimension;
            for (size_t i = 0; i < kDimension; ++i) {
                u[i * lanes + p] = static_cast<int16_t>(row[i] >> 2);
            }
        }
        V16 first = hn::Set(d, 32767);
        V16 second = first;
        V16 third = first;
        V16 offset = hn::Set(d, -12 * 1024);
        for (int16_t m = 0; m < 2; ++m) {
            for (size_t o = 0; o < 3; ++o) {
                V16 s[8];
                for (size_t i = 0; i < 8; ++i) {
                    V16 v = hn::Load(d, u + (8 * o + i) * lanes);
                    v = m == 0 ? v : hn::Sub(v, unit);
                    // |u| - 1 at 2^-10, rounded; -2^15 stands for 2^15 and comes out right by the wrap.
                    s[i] = hn::ShiftRight<4>(hn::Add(hn::Sub(hn::Abs(v), unit), hn::Set(d, 8)));
                    offset = m == 0 ? hn::Add(offset, hn::Abs(s[i])) : offset;
                }
                switch (o) {
                    case 0:
                        octet_sizes<0>(s, size);
                        break;
                    case 1:
                        octet_sizes<1>(s, size + kPairs * lanes);
                        break;
                    default:
                        octet_sizes<2>(s, size + 2 * kPairs * lanes);
                }
            }
            for (size_t t = 0; t < kClasses; ++t) {
                V16 key = hn::Sub(m == 0 ? offset : hn::Zero(d), widest(size + t * kDimension * lanes));
                const auto tag = static_cast<int16_t>(m * 8 + static_cast<int16_t>(t));
                key = hn::Or(hn::And(key, tag_mask), hn::Set(d, tag));
                hn::StoreU(key, d, out.all[tag] + begin);
                const V16 not_first = hn::Max(first, key);
                first = hn::Min(first, key);
                third = hn::Min(third, hn::Max(second, not_first));
                second = hn::Min(second, not_first);
            }
        }
        hn::StoreU(first, d, out.ranked[0] + begin);
        hn::StoreU(second, d, out.ranked[1] + begin);
        hn::StoreU(third, d, out.ranked[2] + begin);
    }
}

}  // namespace
}  // namespace kaiju::lattice::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
