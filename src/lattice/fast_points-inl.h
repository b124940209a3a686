// The two ends of the fast decoder: points onto the grid, and cosets back to points. Included once per
// instruction set (fast.cpp).

#if defined(KAIJU_LATTICE_FAST_POINTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KAIJU_LATTICE_FAST_POINTS_INL_H_
#undef KAIJU_LATTICE_FAST_POINTS_INL_H_
#else
#define KAIJU_LATTICE_FAST_POINTS_INL_H_
#endif

#include <hwy/highway.h>

#include "lattice/fast.h"
#include "lattice/golay.h"

HWY_BEFORE_NAMESPACE();
namespace kaiju::lattice::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

/// 24 n values as shift + residual / 2^16, the shift a multiple of 8 (decoder.cpp says why every step but the
/// last rounding is exact). False if a value is not finite or beyond 2^20; the outputs are then meaningless.
HWY_ATTR bool to_grid(const float* HWY_RESTRICT y, size_t n, int32_t* HWY_RESTRICT residual,
                      int32_t* HWY_RESTRICT shift) {
    const hn::CappedTag<float, 8> d;
    const hn::CappedTag<int32_t, 8> di;
    const auto limit = hn::Set(d, 0x1p20F);
    const auto eighth = hn::Set(d, 0.125F);
    const auto eight = hn::Set(d, 8.0F);
    const auto scale = hn::Set(d, static_cast<float>(kGridUnit));
    auto fine = hn::Le(hn::Zero(d), hn::Zero(d));
    for (size_t i = 0; i < n * kDimension; i += hn::MaxLanes(d)) {
        const auto v = hn::LoadU(d, y + i);
        fine = hn::And(fine, hn::Le(hn::Abs(v), limit));
        const auto whole = hn::Mul(hn::Round(hn::Mul(v, eighth)), eight);
        hn::StoreU(hn::NearestInt(hn::Mul(hn::Sub(v, whole), scale)), di, residual + i);
        hn::StoreU(hn::ConvertTo(di, whole), di, shift + i);
    }
    return hn::AllTrue(d, fine);
}

/// Sum of the squares of all lanes of `count` vectors.
template <class D>
HWY_INLINE int64_t sum_of_squares(D d, const hn::Vec<D>* HWY_RESTRICT r, size_t count) {
    if constexpr (hn::MaxLanes(D()) == 1) {
        int64_t sum = 0;
        for (size_t k = 0; k < count; ++k) {
            sum += int64_t{hn::GetLane(r[k])} * hn::GetLane(r[k]);
        }
        return sum;
    } else {
        const hn::RepartitionToWide<D> dw;
        auto sum = hn::Zero(dw);
        for (size_t k = 0; k < count; ++k) {
            const auto odd =
                hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(hn::RebindToUnsigned<decltype(dw)>(), r[k])));
            sum = hn::Add(sum, hn::Add(MulEven(r[k], r[k]), MulEven(odd, odd)));
        }
        return hn::GetLane(hn::SumOfLanes(dw, sum));
    }
}

/// nearest_in_coset for n points at once, moved by their shifts; codes as in Best. One point at a time in
/// lanes of coordinates: a transposition would cost more than the three reductions.
HWY_ATTR HWY_NOINLINE void finish_points(const int32_t* HWY_RESTRICT residual,
                                         const int32_t* HWY_RESTRICT shift, const Best* HWY_RESTRICT best,
                                         size_t n, Nearest* HWY_RESTRICT out) {
    const hn::CappedTag<int32_t, 8> d;
    constexpr size_t kLanes = hn::MaxLanes(decltype(d)());
    constexpr size_t kParts = kDimension / kLanes;
    using V = hn::Vec<decltype(d)>;
    HWY_ALIGN static constexpr std::array<int32_t, 8> kBits = {1, 2, 4, 8, 16, 32, 64, 128};
    HWY_ALIGN static constexpr std::array<int32_t, 8> kOrder = {0, 1, 2, 3, 4, 5, 6, 7};
    const V half_less = hn::Set(d, 2 * kGridUnit - 1);
    const V four = hn::Set(d, 4);
    const V zero = hn::Zero(d);
    for (size_t p = 0; p < n; ++p) {
        const uint16_t code = best[p].code;
        const uint16_t index = kIndexInClass[code & 4095];
        const uint32_t word = kGolay[index];
        const int32_t m = code >> 12;
        const V base = hn::Set(d, m);
        V r[kParts];
        V x[kParts];
        V rank[kParts];
        V odd = zero;
        V widest = zero;
        for (size_t k = 0; k < kParts; ++k) {
            const size_t i = k * kLanes;
            const V bits = hn::And(hn::Set(d, static_cast<int32_t>(word >> i / 8 * 8)),
                                   hn::LoadU(d, kBits.data() + i % 8));
            const V clear = hn::VecFromMask(d, hn::Eq(bits, zero));  // -1 where c = 0
            const V offset = hn::Add(base, hn::ShiftLeft<1>(hn::Add(clear, hn::Set(d, 1))));
            const V v = hn::Sub(hn::LoadU(d, residual + p * kDimension + i), hn::ShiftLeft<16>(offset));
            const V q = hn::ShiftRight<18>(hn::Add(v, half_less));
            odd = hn::Xor(odd, q);
            r[k] = hn::Sub(v, hn::ShiftLeft<18>(q));
            x[k] = hn::Add(hn::Add(offset, hn::ShiftLeft<2>(q)), hn::LoadU(d, shift + p * kDimension + i));
            // |r| first, then the smallest coordinate; |r| <= 2^17.
            const V order = hn::Sub(hn::Set(d, static_cast<int32_t>(31 - i / 8 * 8)),
                                    hn::LoadU(d, kOrder.data() + i % 8));
            rank[k] = hn::Or(hn::ShiftLeft<5>(hn::Abs(r[k])), order);
            widest = hn::Max(widest, rank[k]);
        }
        const size_t odd_lanes = hn::CountTrue(d, hn::Lt(hn::ShiftLeft<31>(odd), zero));
        const int32_t wrong = static_cast<int32_t>((odd_lanes ^ static_cast<size_t>(m)) & 1);
        const V most = hn::MaxOfLanes(d, widest);
        const V asked = hn::Set(d, -wrong);
        for (size_t k = 0; k < kParts; ++k) {
            const V move = hn::IfThenElse(hn::Gt(r[k], zero), four, hn::Neg(four));
            const V here = hn::And(hn::VecFromMask(d, hn::Eq(rank[k], most)), asked);
            hn::StoreU(hn::Add(x[k], hn::And(move, here)), d, out[p].x.data() + k * kLanes);
        }
        const int64_t largest = hn::GetLane(most) >> 5;
        const int64_t d2 =
            sum_of_squares(d, r, kParts) + wrong * 8 * int64_t{kGridUnit} * (2 * kGridUnit - largest);
        out[p].word = index;
        out[p].m = static_cast<uint8_t>(m);
        out[p].d2 = static_cast<double>(d2) * 0x1p-32;
    }
}

}  // namespace
}  // namespace kaiju::lattice::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
