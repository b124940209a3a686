#include "lattice/codebook_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <tuple>

#include "base/error.h"
#include "lattice/decoders.h"
#include "lattice/gate.h"
#include "lattice/golay.h"
#include "lattice/leech.h"

namespace kaiju::lattice {

namespace {

/// The best of one coset, found without any thought: two running minima, by the parity of the sum so far.
struct Coset4 {
    double d2;
    bool flip;
    int m;
    uint32_t index;
};

/// Every coset of the code book with its exact distance, in the documented order.
std::vector<Coset4> all_cosets(std::span<const float> y, Parity parity) {
    std::vector<Coset4> all;
    for (const bool flip : {false, true}) {
        for (int m = 0; m < 2; ++m) {
            // Distances of each coordinate to each value, doubles on the 2^-16 grid: exact.
            std::array<std::array<std::array<double, 2>, 2>, kDimension> cost;  // [i][c][parity of z]
            for (size_t i = 0; i < kDimension; ++i) {
                const double grid = std::nearbyint(double{y[i]} * 65536) / 65536;
                for (int c = 0; c < 2; ++c) {
                    const auto square = [&](int z) {
                        const double r = grid - (flip ? -1 : 1) * (m + 2 * c + 4 * z);
                        return r * r;
                    };
                    cost[i][static_cast<size_t>(c)] = {square(0), std::min(square(-1), square(1))};
                }
            }
            for (uint32_t index = 0; index < kGolayWords; ++index) {
                std::array<double, 2> best = {0, std::numeric_limits<double>::infinity()};
                for (size_t i = 0; i < kDimension; ++i) {
                    const auto& here = cost[i][kGolay[index] >> i & 1];
                    best = {std::min(best[0] + here[0], best[1] + here[1]),
                            std::min(best[0] + here[1], best[1] + here[0])};
                }
                all.push_back(
                    {parity == Parity::free ? std::min(best[0], best[1]) : best[static_cast<size_t>(m)], flip,
                     m, index});
            }
        }
    }
    std::sort(all.begin(), all.end(), [](const Coset4& a, const Coset4& b) {
        return std::tie(a.d2, a.flip, a.m, a.index) < std::tie(b.d2, b.flip, b.m, b.index);
    });
    return all;
}

std::array<int32_t, kDimension> values(const CodebookWord& word) {
    std::array<int32_t, kDimension> x;
    for (size_t i = 0; i < kDimension; ++i) {
        x[i] = word.value(i);
    }
    return x;
}

/// Legal, of the parity asked for, and as far as it says.
void expect_sound(const CodebookWord& found, std::span<const float> y, Parity parity) {
    int sum = 0;
    double d2 = 0;
    for (size_t i = 0; i < kDimension; ++i) {
        ASSERT_LE(std::abs(found.z[i]), 1);
        sum += found.z[i];
        const double r = std::nearbyint(double{y[i]} * 65536) / 65536 - found.value(i);
        d2 += r * r;
    }
    ASSERT_EQ(found.d2, d2);
    ASSERT_LT(found.word, kGolayWords);
    if (parity == Parity::kept) {
        ASSERT_EQ((sum - found.m) % 2, 0);
        ASSERT_TRUE(is_lattice_point(values(found)));
    }
}

class Codebook : public testing::TestWithParam<Parity> {};

INSTANTIATE_TEST_SUITE_P(Both, Codebook, testing::Values(Parity::kept, Parity::free),
                         [](const auto& p) { return p.param == Parity::kept ? "kept" : "free"; });

}  // namespace

TEST_P(Codebook, FindsTheBestOfTheWholeCodeBook) {
    const CodebookSearch search(GetParam());
    for (const PointKind kind :
         {PointKind::gaussian, PointKind::laplacian, PointKind::uniform, PointKind::structured}) {
        std::vector<float> y(40 * kDimension);
        make_points(kind, 3, 0, y);
        for (float& v : y) {
            v = kind == PointKind::structured ? std::clamp(v, -200.0F, 200.0F) : v;
        }
        std::vector<CodebookWord> found(40);
        search.nearest(y, found);
        for (size_t p = 0; p < 40; ++p) {
            const auto point = std::span<const float>(y).subspan(p * kDimension, kDimension);
            const Coset4 best = all_cosets(point, GetParam()).front();
            expect_sound(found[p], point, GetParam());
            ASSERT_EQ(found[p].d2, best.d2);
            ASSERT_EQ(found[p].flip, best.flip);
            ASSERT_EQ(int{found[p].m}, best.m);
            ASSERT_EQ(found[p].word, best.index);
        }
    }
}

TEST_P(Codebook, CandidatesAreTheBestInOrderAndAllDifferent) {
    constexpr size_t kCount = 12;
    const CodebookSearch search(GetParam());
    std::vector<float> y(40 * kDimension);
    make_points(PointKind::gaussian, 4, 0, std::span(y).first(30 * kDimension));
    make_points(PointKind::structured, 4, 0, std::span(y).last(10 * kDimension));
    for (float& v : y) {
        v = std::clamp(v, -100.0F, 100.0F);
    }
    std::vector<CodebookWord> found(40 * kCount);
    search.candidates(y, kCount, found);
    std::vector<CodebookWord> one(1);
    for (size_t p = 0; p < 40; ++p) {
        const auto point = std::span<const float>(y).subspan(p * kDimension, kDimension);
        const auto all = all_cosets(point, GetParam());
        const auto list = std::span<const CodebookWord>(found).subspan(p * kCount, kCount);
        std::set<std::array<int32_t, kDimension>> points;
        // Walking down all cosets, each is in the list or says the same as one before it.
        size_t next = 0;
        for (const Coset4& coset : all) {
            if (next == kCount) {
                break;
            }
            const CodebookWord& candidate = list[next];
            if (candidate.flip == coset.flip && candidate.m == coset.m && candidate.word == coset.index) {
                ASSERT_EQ(candidate.d2, coset.d2);
                expect_sound(candidate, point, GetParam());
                ASSERT_TRUE(points.insert(values(candidate)).second);
                ++next;
            } else {
                ASSERT_TRUE(std::any_of(list.begin(), list.begin() + static_cast<ptrdiff_t>(next),
                                        [&](const CodebookWord& w) { return w.d2 == coset.d2; }))
                    << "point " << p << ": a coset at " << coset.d2 << " is missing";
            }
        }
        ASSERT_EQ(next, kCount);
        search.nearest(point, one);
        EXPECT_EQ(values(one[0]), values(list[0]));
    }
}

TEST_P(Codebook, EveryInstructionSetFindsTheSame) {
    constexpr size_t kPoints = 1500;
    std::vector<float> y(kPoints * kDimension);
    const auto part = [&](size_t first, size_t count) {
        return std::span(y).subspan(first * kDimension, count * kDimension);
    };
    make_points(PointKind::gaussian, 8, 0, part(0, 500));
    make_points(PointKind::laplacian, 8, 0, part(500, 300));
    make_points(PointKind::structured, 8, 0, part(800, 400));  // beyond what the batched search takes, too
    make_points(PointKind::gaussian, 9, 0, part(1200, 300));
    for (float& v : part(1200, 150)) {
        v *= 2;
    }
    for (float& v : part(1350, 150)) {
        v = std::nearbyint(v * 2) / 2;  // ties
    }
    std::vector<CodebookWord> expected(kPoints);
    std::vector<CodebookWord> found(kPoints);
    CodebookSearch(GetParam()).candidates(y, 1, expected);
    for (const Simd simd : available_simd()) {
        const CodebookSearch search(GetParam(), simd);
        EXPECT_EQ(search.simd(), simd);
        search.nearest(y, found);
        for (size_t p = 0; p < kPoints; ++p) {
            ASSERT_EQ(found[p].d2, expected[p].d2) << simd_name(simd) << " point " << p;
            ASSERT_EQ(found[p].flip, expected[p].flip) << simd_name(simd) << " point " << p;
            ASSERT_EQ(found[p].m, expected[p].m) << simd_name(simd) << " point " << p;
            ASSERT_EQ(found[p].word, expected[p].word) << simd_name(simd) << " point " << p;
            ASSERT_EQ(found[p].z, expected[p].z) << simd_name(simd) << " point " << p;
        }
        for (const size_t size : {1, 7, 17, 65}) {  // alone as in a batch
            std::vector<CodebookWord> few(size);
            search.nearest(part(100, size), few);
            for (size_t p = 0; p < size; ++p) {
                ASSERT_EQ(few[p].z, found[100 + p].z);
                ASSERT_EQ(few[p].word, found[100 + p].word);
            }
        }
    }
}

TEST(Codebook, EqualsTheLatticeWhereNothingClamps) {
    // Within [-2, 2] the nearest lattice point has coordinates in -4..5, all of which the trits reach.
    std::vector<float> y(500 * kDimension);
    make_points(PointKind::uniform, 6, 0, y);
    for (float& v : y) {
        v = v / 2 - 2;
    }
    std::vector<CodebookWord> found(500);
    std::vector<Nearest> lattice(500);
    CodebookSearch(Parity::kept).nearest(y, found);
    make_pruned_decoder()->nearest(std::span<const float>(y), lattice);
    for (size_t p = 0; p < 500; ++p) {
        bool clamps = false;
        for (const int32_t x : lattice[p].x) {
            clamps |= std::abs(x) > 4;
        }
        if (!clamps) {
            ASSERT_EQ(found[p].d2, lattice[p].d2) << p;
        }
    }
}

TEST(Codebook, FreeIsNeverFartherThanKept) {
    std::vector<float> y(500 * kDimension);
    make_points(PointKind::gaussian, 7, 0, y);
    std::vector<CodebookWord> kept(500);
    std::vector<CodebookWord> free(500);
    CodebookSearch(Parity::kept).nearest(y, kept);
    CodebookSearch(Parity::free).nearest(y, free);
    double sum_kept = 0;
    double sum_free = 0;
    for (size_t p = 0; p < 500; ++p) {
        ASSERT_LE(free[p].d2, kept[p].d2);
        sum_kept += kept[p].d2;
        sum_free += free[p].d2;
    }
    EXPECT_LT(sum_free, 0.98 * sum_kept);
}

TEST(Codebook, HugeAndBadInputs) {
    const CodebookSearch search(Parity::kept);
    std::vector<float> y(3 * kDimension, 0x1p20F);
    y[5] = -0x1p20F;
    y[kDimension + 3] = -1000;
    std::fill_n(y.begin() + 2 * kDimension, kDimension, 65.5F);
    std::vector<CodebookWord> found(3);
    search.nearest(y, found);
    for (size_t p = 0; p < 3; ++p) {
        const auto all =
            all_cosets(std::span<const float>(y).subspan(p * kDimension, kDimension), Parity::kept);
        EXPECT_NEAR(found[p].d2, all.front().d2, 1e-9 * all.front().d2);
    }
    y[kDimension + 9] = std::numeric_limits<float>::infinity();
    try {
        search.nearest(y, found);
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::bad_input);
        EXPECT_NE(std::string(error.what()).find("point 1, coordinate 9"), std::string::npos) << error.what();
    }
    EXPECT_THROW(search.candidates(y, 0, {}), Error);
    EXPECT_THROW(search.candidates(y, 65, found), Error);
    EXPECT_THROW(search.nearest(std::span<const float>(y).first(25), found), Error);
}

}  // namespace kaiju::lattice
