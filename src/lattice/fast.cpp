// The fast decoder: bounds on all classes in 16-bit lanes, then an exact search of the few classes that can
// hold the nearest point in 32-bit lanes. docs/leech-decoder.md.

#include "lattice/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lattice/fast.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <limits>

#include "lattice/fast_bounds-inl.h"
#include "lattice/fast_items-inl.h"
#include "lattice/fast_points-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kaiju::lattice::HWY_NAMESPACE {
namespace {

/// Searches items and keeps what is better for their points.
void search_items(const int32_t* residual, const Item* items, size_t n, Workspace& work) {
    Group& group = work.group;
    work.searched += n;
    for (size_t begin = 0; begin < n; begin += kGroup) {
        const size_t count = std::min(kGroup, n - begin);
        fill_group(residual, items + begin, count, group);
        search_group<false>(group, count);
        for (size_t k = 0; k < count; ++k) {
            const Item item = items[begin + k];
            const int32_t value = group.keys[k] >> kKeyShift;
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

/// Nearest cosets of up to kBlock points.
void search_block(const int32_t* residual, size_t n, Workspace& work) {
    pack_rows(residual, n, work.rows.data());
    find_bounds(work.rows.data(), n, work.bounds);
    std::fill_n(work.best.begin(), n, Best{std::numeric_limits<int32_t>::max(), 0});
    const auto item_of = [](size_t point, int16_t key) {
        return Item{static_cast<uint16_t>(point), static_cast<uint8_t>(key >> 3 & 1),
                    static_cast<uint8_t>(key & 7)};
    };
    const auto could_win = [&](size_t point, int16_t key) {
        return ((key & ~15) - kBoundSlack) * (kGridUnit / 1024) <= work.best[point].value;
    };
    // Best first: the class with the least bound of every point, then the second where it can still win, the
    // third, and then all that remain of the few points that remain.
    size_t live = n;
    for (size_t p = 0; p < n; ++p) {
        work.live[p] = static_cast<uint16_t>(p);
        work.items[p] = item_of(p, work.bounds.ranked[0][p]);
    }
    search_items(residual, work.items.data(), n, work);
    for (size_t rank = 1; rank < work.bounds.ranked.size(); ++rank) {
        size_t kept = 0;
        for (size_t k = 0; k < live; ++k) {
            const size_t p = work.live[k];
            const int16_t key = work.bounds.ranked[rank][p];
            work.live[kept] = static_cast<uint16_t>(p);
            work.items[kept] = item_of(p, key);
            kept += could_win(p, key) ? 1 : 0;
        }
        live = kept;
        search_items(residual, work.items.data(), live, work);
    }
    size_t rest = 0;
    for (size_t k = 0; k < live; ++k) {
        const size_t p = work.live[k];
        for (const auto& keys : work.bounds.all) {
            if (keys[p] > work.bounds.ranked.back()[p] && could_win(p, keys[p])) {
                work.items[rest++] = item_of(p, keys[p]);
            }
        }
        if (rest + 16 > work.items.size()) {
            search_items(residual, work.items.data(), rest, work);
            rest = 0;
        }
    }
    search_items(residual, work.items.data(), rest, work);
}

}  // namespace

const FastKernels& fast_kernels() {
    static const FastKernels kernels = {kThis, &to_grid, &search_block, &finish_points};
    return kernels;
}

}  // namespace kaiju::lattice::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "lattice/simd_select.h"

#include <memory>
#include <vector>

#include "base/error.h"
#include "lattice/decoders.h"

namespace kaiju::lattice {

namespace {

const FastKernels& kernels_of(Simd simd) {
    // NOLINTNEXTLINE(bugprone-branch-clone): where scalar is all that was compiled
    KAIJU_RETURN_FOR(simd, fast_kernels)
}

class Fast final : public Decoder {
  public:
    explicit Fast(Simd simd) : kernels_(kernels_of(simd)) {}

    [[nodiscard]] std::string_view name() const override { return "fast"; }
    [[nodiscard]] std::string_view simd() const override { return simd_name(kernels_.simd); }

  protected:
    using Decoder::to_grid;
    bool to_grid(std::span<const float> y, int32_t* residual, int32_t* shift) const override {
        return kernels_.to_grid(y.data(), y.size() / kDimension, residual, shift);
    }

    void search(const int32_t* residual, const int32_t* shift, std::span<Nearest> out) const override {
        Workspace work;
        for (size_t begin = 0; begin < out.size(); begin += kBlock) {
            const size_t n = std::min(kBlock, out.size() - begin);
            const size_t at = begin * kDimension;
            kernels_.search_block(residual + at, n, work);
            kernels_.finish(residual + at, shift + at, work.best.data(), n, out.data() + begin);
        }
    }

  private:
    const FastKernels& kernels_;
};

}  // namespace

FastWork count_fast_work(std::span<const float> y) {
    const FastKernels& kernels = kernels_of(chosen_simd());
    const size_t n = y.size() / kDimension;
    std::vector<int32_t> residual(n * kDimension);
    std::vector<int32_t> shift(n * kDimension);
    if (!kernels.to_grid(y.data(), n, residual.data(), shift.data())) {
        throw Error(ErrorCode::bad_input, "a value is not finite or beyond 2^20");
    }
    const auto work = std::make_unique<Workspace>();
    for (size_t begin = 0; begin < n; begin += kBlock) {
        kernels.search_block(residual.data() + begin * kDimension, std::min(kBlock, n - begin), *work);
    }
    // Operations on one lane, counted in the kernels; loads, stores and the scalar book-keeping are not among
    // them.
    constexpr double kEnds = (10 + 20) * 24;                    // onto the grid, back to the point
    constexpr double kBounds = (3 + 3 + 9) * 24 + 2 * 6 * 12 +  // rows, transposition, s; nibble sums
                               16 * (48 + 64 + 56 + 16 + 8);    // pair sizes, join, key and ranking
    constexpr double kItem = 11 * 24 +                          // row and signs
                             48 + 5 * 24 + 6 * 12 * 3 + 40 +  // transposition, repairs, transforms, parities
                             (10 * 24 + 16) + (28 * 16 + 60) + 4;  // pair keys, join, offset
    FastWork counted;
    counted.classes_per_point = static_cast<double>(work->searched) / static_cast<double>(n);
    counted.operations_per_point = kEnds + kBounds + kItem * counted.classes_per_point;
    return counted;
}

std::unique_ptr<Decoder> make_fast_decoder(Simd simd) {
    return std::make_unique<Fast>(simd);
}

}  // namespace kaiju::lattice

#endif  // HWY_ONCE
