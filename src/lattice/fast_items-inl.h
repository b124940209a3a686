// Second pass of the fast decoder: the best word of one class of one half, exactly, one (point, half, class)
// per 32-bit lane. Included once per instruction set (fast.cpp).
//
// A key is 512 x value + the nine bits that sort words inside a class, and everything is a minimum of sums of
// keys, so the smallest key is the smallest value and, of equals, the smallest word. Values stay within 32
// units of 2^16 steps and keys within 31 bits. With the signs of the class applied to the row, every class
// looks like class 0, in which the eight sums of an octet are its Walsh transform.

#if defined(KAIJU_LATTICE_FAST_ITEMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KAIJU_LATTICE_FAST_ITEMS_INL_H_
#undef KAIJU_LATTICE_FAST_ITEMS_INL_H_
#else
#define KAIJU_LATTICE_FAST_ITEMS_INL_H_
#endif

#include <hwy/highway.h>

#include "lattice/fast.h"

HWY_BEFORE_NAMESPACE();
namespace kaiju::lattice::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using D32 = hn::ScalableTag<int32_t>;
using V32 = hn::Vec<D32>;
using M32 = hn::Mask<D32>;

/// The instruction set that this copy of the kernels is compiled for.
constexpr Simd kThis = HWY_TARGET == HWY_AVX3   ? Simd::avx512
                       : HWY_TARGET == HWY_AVX2 ? Simd::avx2
                       : HWY_TARGET == HWY_SSE4 ? Simd::sse4
                                                : Simd::scalar;

constexpr int kKeyShift = 9;
/// Bits of an item beside its row: 5..8 rank of the class word's third octet, in its place in a key; 16 + 4 o
/// + 0..3: overlaps of the parity turns of octet o with 0xAA, 0xCC, 0xF0, 0xFF; 28: parity that the class
/// word leaves.
constexpr int kTurnsAt = 16;
constexpr int kOddAt = 28;

/// Where value i of item r lies in a group's array: quarters of octets (4 values, 128 bits) such that whole
/// vectors hold the same quarter of items r, r + 4, r + 8, ... and a 4 x 4 transposition inside 128-bit
/// blocks finishes.
HWY_INLINE size_t place(size_t item, size_t quarter) {
    if constexpr (hn::MaxLanes(D32()) < 4) {
        return item * kDimension + quarter * 4;
    } else {
        const size_t lanes = hn::Lanes(D32());
        const size_t r = item % lanes;
        return item / lanes * lanes * kDimension + ((quarter * 4 + r % 4) * (lanes / 4) + r / 4) * 4;
    }
}

/// Stores values i, i + 1, ... of an item. (Calls without `hn::` are to what one-lane targets lack: found
/// when used.)
template <class D>
HWY_INLINE void store_quarters(D d, hn::Vec<D> values, size_t item, size_t i, int32_t* HWY_RESTRICT out) {
    if constexpr (hn::MaxLanes(D()) <= 4) {
        hn::StoreU(values, d, out + place(item, i / 4) + i % 4);
    } else {
        const hn::Half<D> dh;
        hn::StoreU(LowerHalf(dh, values), dh, out + place(item, i / 4));
        hn::StoreU(UpperHalf(dh, values), dh, out + place(item, i / 4 + 1));
    }
}

/// An item's bits from its class, its turns and the parity that the word 0 leaves.
HWY_INLINE uint32_t item_bits(size_t t, uint32_t turns, uint32_t odd) {
    const uint32_t word = kClassWord[t];
    const uint32_t wrong = (odd ^ static_cast<uint32_t>(std::popcount(turns & word))) & 1;
    const uint32_t overlaps = static_cast<uint32_t>(kOverlaps[turns & 0xFF]) |
                              static_cast<uint32_t>(kOverlaps[turns >> 8 & 0xFF]) << 4 |
                              static_cast<uint32_t>(kOverlaps[turns >> 16]) << 8;
    return octet_rank(word >> 16) << 5 | overlaps << kTurnsAt | wrong << kOddAt;
}

/// Stores one item: its row with the class's signs, in key units, and its bits.
HWY_INLINE void store_item(const int32_t* HWY_RESTRICT residual, Item item, size_t at, Group& group) {
    const hn::CappedTag<int32_t, 8> d;
    const size_t lanes = hn::Lanes(d);
    const auto half = hn::Set(d, item.m * kGridUnit);
    const auto unit = hn::Set(d, kGridUnit);
    const auto two = hn::Set(d, 2 * kGridUnit);
    const int32_t* HWY_RESTRICT row = residual + item.point * kDimension;
    const int32_t* HWY_RESTRICT signs = kClassSigns[item.t].data();
    auto odd = hn::Zero(d);
    uint32_t turns = 0;
    for (size_t i = 0; i < kDimension; i += lanes) {
        const auto v = hn::Sub(hn::LoadU(d, row + i), half);
        odd = hn::Xor(odd, hn::Add(v, two));                      // bit 18: parity of round(v / 4)
        const auto u = hn::ShiftRight<14>(hn::ShiftLeft<14>(v));  // modulo 4, in [-2, 2)
        uint8_t bits[8] = {};
        hn::StoreMaskBits(d, hn::Lt(u, hn::Zero(d)), bits);
        turns |= static_cast<uint32_t>(bits[0]) << i;
        const auto sign = hn::LoadU(d, signs + i);
        const auto s = hn::Sub(hn::Abs(u), unit);
        const auto key = hn::ShiftLeft<kKeyShift>(hn::Sub(hn::Xor(s, sign), sign));
        store_quarters(d, key, at, i, group.s.data());
    }
    const auto odd_bits = hn::CountTrue(d, hn::Lt(hn::ShiftLeft<13>(odd), hn::Zero(d)));
    // The even half carries the offset of its constant: its sign bit asks for it.
    group.bits[at] = static_cast<int32_t>(item_bits(item.t, turns, static_cast<uint32_t>(odd_bits) ^ item.m) |
                                          (item.m == 0 ? 0x80000000U : 0U));
}

/// The four values of one quarter of N items.
template <class D>
HWY_INLINE void load_quarter(D d, const int32_t* HWY_RESTRICT s, size_t quarter,
                             hn::Vec<D>* HWY_RESTRICT out) {
    if constexpr (hn::MaxLanes(D()) < 4) {
        for (size_t i = 0; i < 4; ++i) {
            out[i] = hn::Load(d, s + quarter * 4 + i);
        }
    } else {
        const hn::RepartitionToWide<D> dw;
        const size_t lanes = hn::Lanes(d);
        const auto v0 = hn::Load(d, s + (quarter * 4 + 0) * lanes);
        const auto v1 = hn::Load(d, s + (quarter * 4 + 1) * lanes);
        const auto v2 = hn::Load(d, s + (quarter * 4 + 2) * lanes);
        const auto v3 = hn::Load(d, s + (quarter * 4 + 3) * lanes);
        const auto a = hn::BitCast(dw, InterleaveLower(d, v0, v1));
        const auto b = hn::BitCast(dw, InterleaveLower(d, v2, v3));
        const auto e = hn::BitCast(dw, InterleaveUpper(d, v0, v1));
        const auto f = hn::BitCast(dw, InterleaveUpper(d, v2, v3));
        out[0] = hn::BitCast(d, InterleaveLower(dw, a, b));
        out[1] = hn::BitCast(d, InterleaveUpper(dw, a, b));
        out[2] = hn::BitCast(d, InterleaveLower(dw, e, f));
        out[3] = hn::BitCast(d, InterleaveUpper(dw, e, f));
    }
}

/// Over four coordinates: sums, and the cheapest repairs of members (p) and complements (n), from what the
/// repair of each coordinate costs where its code bit is clear (q) and set (r). Two steps of a Walsh
/// transform, and the same butterflies with minima.
HWY_INLINE void transform_quarter(const V32* HWY_RESTRICT in, const V32* HWY_RESTRICT q,
                                  const V32* HWY_RESTRICT r, V32* HWY_RESTRICT s, V32* HWY_RESTRICT p,
                                  V32* HWY_RESTRICT n) {
    const V32 s01 = hn::Add(in[0], in[1]);
    const V32 d01 = hn::Sub(in[0], in[1]);
    const V32 s23 = hn::Add(in[2], in[3]);
    const V32 d23 = hn::Sub(in[2], in[3]);
    s[0] = hn::Add(s01, s23);
    s[1] = hn::Add(d01, d23);
    s[2] = hn::Sub(s01, s23);
    s[3] = hn::Sub(d01, d23);
    // (sign of 0, sign of 1): ++, --, +-, -+, and the same of 2 and 3.
    const V32 pp = hn::Min(q[0], q[1]);
    const V32 nn = hn::Min(r[0], r[1]);
    const V32 pn = hn::Min(q[0], r[1]);
    const V32 np = hn::Min(r[0], q[1]);
    const V32 pp2 = hn::Min(q[2], q[3]);
    const V32 nn2 = hn::Min(r[2], r[3]);
    const V32 pn2 = hn::Min(q[2], r[3]);
    const V32 np2 = hn::Min(r[2], q[3]);
    p[0] = hn::Min(pp, pp2);
    n[0] = hn::Min(nn, nn2);
    p[1] = hn::Min(pn, pn2);
    n[1] = hn::Min(np, np2);
    p[2] = hn::Min(pp, nn2);
    n[2] = hn::Min(nn, pp2);
    p[3] = hn::Min(pn, np2);
    n[3] = hn::Min(np, pn2);
}

/// One quarter of N items of the infinite lattice, where repairs follow from s; `sizes` grows by |s|.
HWY_INLINE void quarter_from_s(const Group& group, size_t at, size_t quarter, V32* HWY_RESTRICT s,
                               V32* HWY_RESTRICT p, V32* HWY_RESTRICT n, V32& sizes) {
    const D32 d;
    const V32 four = hn::Set(d, 4 * (kGridUnit << kKeyShift));
    V32 in[4];
    V32 q[4];
    V32 r[4];
    load_quarter(d, group.s.data() + at * kDimension, quarter, in);
    for (size_t i = 0; i < 4; ++i) {
        const V32 s4 = hn::ShiftLeft<2>(in[i]);
        q[i] = hn::Sub(four, s4);
        r[i] = hn::Add(four, s4);
        sizes = hn::Add(sizes, hn::Abs(in[i]));
    }
    transform_quarter(in, q, r, s, p, n);
}

/// One quarter of N items with repairs of their own (the finite code book).
HWY_INLINE void quarter_from_tables(const Group& group, size_t at, size_t quarter, V32* HWY_RESTRICT s,
                                    V32* HWY_RESTRICT p, V32* HWY_RESTRICT n) {
    const D32 d;
    V32 in[4];
    V32 q[4];
    V32 r[4];
    load_quarter(d, group.s.data() + at * kDimension, quarter, in);
    load_quarter(d, group.clear.data() + at * kDimension, quarter, q);
    load_quarter(d, group.set.data() + at * kDimension, quarter, r);
    transform_quarter(in, q, r, s, p, n);
}

/// The best key of each pair of octet o by the parity it leaves: values[2 j + parity]. Returns Σ |s| (lattice
/// only).
template <size_t kOctet, bool kTables>
HWY_INLINE V32 pair_keys(const Group& group, size_t at, V32 bits, V32* HWY_RESTRICT values) {
    const D32 d;
    V32 s[8];
    V32 p[8];
    V32 n[8];
    V32 sizes = hn::Zero(d);
    if constexpr (kTables) {
        quarter_from_tables(group, at, 2 * kOctet, s, p, n);
        quarter_from_tables(group, at, 2 * kOctet + 1, s + 4, p + 4, n + 4);
    } else {
        quarter_from_s(group, at, 2 * kOctet, s, p, n, sizes);
        quarter_from_s(group, at, 2 * kOctet + 1, s + 4, p + 4, n + 4, sizes);
    }
    const auto bit_mask = [&](int index) {
        const V32 bit = hn::Set(d, 1 << index);
        return hn::TestBit(bits, bit);
    };
    M32 odd[8];  // parity of the pair's member
    odd[1] = bit_mask(kTurnsAt + 4 * kOctet);
    odd[2] = bit_mask(kTurnsAt + 4 * kOctet + 1);
    odd[4] = bit_mask(kTurnsAt + 4 * kOctet + 2);
    odd[0] = hn::Xor(odd[1], odd[1]);
    if constexpr (kOctet == 2) {  // the parity that the class word leaves is charged here
        odd[0] = bit_mask(kOddAt);
        odd[1] = hn::Xor(odd[1], odd[0]);
        odd[2] = hn::Xor(odd[2], odd[0]);
        odd[4] = hn::Xor(odd[4], odd[0]);
        odd[3] = hn::Xor(hn::Xor(odd[1], odd[2]), odd[0]);
        odd[5] = hn::Xor(hn::Xor(odd[1], odd[4]), odd[0]);
        odd[6] = hn::Xor(hn::Xor(odd[2], odd[4]), odd[0]);
        odd[7] = hn::Xor(odd[3], hn::Xor(odd[4], odd[0]));
    } else {
        odd[3] = hn::Xor(odd[1], odd[2]);
        odd[5] = hn::Xor(odd[1], odd[4]);
        odd[6] = hn::Xor(odd[2], odd[4]);
        odd[7] = hn::Xor(odd[3], odd[4]);
    }
    const M32 turned = bit_mask(kTurnsAt + 4 * kOctet + 3);  // a complement changes the parity
    const V32 class_rank = hn::And(bits, hn::Set(d, 15 << 5));
    // The last step of the transforms joins the two quarters: pairs i and i + 4.
    const auto finish = [&](size_t j, V32 sum, V32 repair, V32 other_repair) {
        const uint32_t member = kPairOctet[j];
        const uint32_t other = member ^ 0xFF;
        V32 rank_a;
        V32 rank_b;
        if constexpr (kOctet == 2) {
            rank_a = hn::Xor(class_rank, hn::Set(d, static_cast<int32_t>(octet_rank(member) << 5)));
            rank_b = hn::Xor(class_rank, hn::Set(d, static_cast<int32_t>(octet_rank(other) << 5)));
        } else if constexpr (kOctet == 1) {
            rank_a = hn::Set(d, static_cast<int32_t>(octet_rank(member) << 1));
            rank_b = hn::Set(d, static_cast<int32_t>(octet_rank(other) << 1));
        } else {
            rank_a = hn::Set(d, static_cast<int32_t>(member >> 7));
            rank_b = hn::Set(d, static_cast<int32_t>(other >> 7));
        }
        const V32 a = hn::Add(rank_a, sum);
        const V32 b = hn::Sub(rank_b, sum);
        const V32 a_repaired = hn::Add(a, repair);
        const V32 b_repaired = hn::Add(b, other_repair);
        const V32 same = hn::Min(a, hn::IfThenElse(turned, b_repaired, b));
        const V32 changed = hn::Min(a_repaired, hn::IfThenElse(turned, b, b_repaired));
        values[2 * j] = hn::IfThenElse(odd[j], changed, same);
        values[2 * j + 1] = hn::IfThenElse(odd[j], same, changed);
    };
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; ++i) {
        finish(i, hn::Add(s[i], s[i + 4]), hn::Min(p[i], p[i + 4]), hn::Min(n[i], n[i + 4]));
        finish(i + 4, hn::Sub(s[i], s[i + 4]), hn::Min(p[i], n[i + 4]), hn::Min(n[i], p[i + 4]));
    }
    return sizes;
}

HWY_INLINE V32 min4(V32 a, V32 b, V32 c, V32 e) {
    return hn::Min(hn::Min(a, b), hn::Min(c, e));
}

/// The best keys of N items, in the order of their places.
template <bool kTables>
HWY_INLINE V32 search_class(const Group& group, size_t at, V32 bits) {
    const D32 d;
    V32 a[16];
    V32 b[16];
    V32 c[16];
    V32 sizes = pair_keys<0, kTables>(group, at, bits, a);
    sizes = hn::Add(sizes, pair_keys<1, kTables>(group, at, bits, b));
    sizes = hn::Add(sizes, pair_keys<2, kTables>(group, at, bits, c));
    V32 best = hn::Set(d, 0x7FFFFFFF);
    // Tiles of 2 x 2 pairs with both parities: eight loads for 32 operations.
#pragma GCC unroll 4
    for (size_t upper = 0; upper < kPairs; upper += 2) {
        V32 joined[4];  // [2 k + parity]: pair upper + k in the third octet
#pragma GCC unroll 4
        for (size_t tile = 0; tile < kPairs; tile += 2) {
            const V32* HWY_RESTRICT first = a + 2 * tile;
            const V32* HWY_RESTRICT second = b + 2 * (tile ^ upper);
            const V32 a0 = first[0];
            const V32 a1 = first[1];
            const V32 a2 = first[2];
            const V32 a3 = first[3];
            const V32 b0 = second[0];
            const V32 b1 = second[1];
            const V32 b2 = second[2];
            const V32 b3 = second[3];
            const V32 same_even = min4(hn::Add(a0, b0), hn::Add(a1, b1), hn::Add(a2, b2), hn::Add(a3, b3));
            const V32 same_odd = min4(hn::Add(a0, b1), hn::Add(a1, b0), hn::Add(a2, b3), hn::Add(a3, b2));
            const V32 other_even = min4(hn::Add(a0, b2), hn::Add(a1, b3), hn::Add(a2, b0), hn::Add(a3, b1));
            const V32 other_odd = min4(hn::Add(a0, b3), hn::Add(a1, b2), hn::Add(a2, b1), hn::Add(a3, b0));
            joined[0] = tile == 0 ? same_even : hn::Min(joined[0], same_even);
            joined[1] = tile == 0 ? same_odd : hn::Min(joined[1], same_odd);
            joined[2] = tile == 0 ? other_even : hn::Min(joined[2], other_even);
            joined[3] = tile == 0 ? other_odd : hn::Min(joined[3], other_odd);
        }
        const V32* HWY_RESTRICT third = c + 2 * upper;
        best = hn::Min(best, min4(hn::Add(joined[0], third[0]), hn::Add(joined[1], third[1]),
                                  hn::Add(joined[2], third[2]), hn::Add(joined[3], third[3])));
    }
    if constexpr (kTables) {
        return best;
    }
    // const_0 - const_1 = Σ (2 |s_i| - 1) of the even half; half of it, in key units.
    const V32 offset = hn::Sub(sizes, hn::Set(d, 12 * (kGridUnit << kKeyShift)));
    return hn::Add(best, hn::And(hn::BroadcastSignBit(bits), offset));
}

/// Searches the first n items of a group.
template <bool kTables>
HWY_ATTR HWY_NOINLINE void search_group(Group& group, size_t n) {
    const D32 d;
    const size_t lanes = hn::Lanes(d);
    for (size_t at = 0; at < n; at += lanes) {
        const V32 bits = hn::Load(d, group.bits.data() + at);
        hn::Store(search_class<kTables>(group, at, bits), d, group.keys.data() + at);
    }
}

HWY_MAYBE_UNUSED HWY_ATTR HWY_NOINLINE void fill_group(const int32_t* HWY_RESTRICT residual,
                                                       const Item* HWY_RESTRICT items, size_t n,
                                                       Group& group) {
    for (size_t at = 0; at < n; ++at) {
        store_item(residual, items[at], at, group);
    }
    const size_t lanes = hn::Lanes(D32());
    for (size_t at = n; at % lanes != 0; ++at) {  // whole vectors: repeat the last
        store_item(residual, items[n - 1], at, group);
    }
}

}  // namespace
}  // namespace kaiju::lattice::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
