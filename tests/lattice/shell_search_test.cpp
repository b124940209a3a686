#include "lattice/shell_search.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/monitor.h"
#include "lattice/golay.h"
#include "lattice/shell_gate.h"

namespace kaiju::lattice {
namespace {

std::vector<ShellTarget> random_targets(std::mt19937_64& random, size_t count, double deviation) {
    std::normal_distribution<double> normal(0, deviation);
    std::vector<ShellTarget> targets(count);
    for (ShellTarget& target : targets) {
        std::generate(target.begin(), target.end(), [&] { return static_cast<float>(normal(random)); });
    }
    return targets;
}

float distance(const ShellTarget& y, const ShellPoint& point) {
    float d2 = 0;
    for (size_t i = 0; i < kDimension; ++i) {
        const float e = y[i] - static_cast<float>(point.x[i]);
        d2 += e * e;
    }
    return d2;
}

/// What a search says of some targets.
struct Answer {
    std::vector<ShellPoint> points;
    std::vector<ShellFound> found;
};

Answer search_for(const ShellSearch& search, std::span<const ShellTarget> targets, size_t keep) {
    Answer answer{.points = std::vector<ShellPoint>(keep * targets.size()),
                  .found = std::vector<ShellFound>(targets.size())};
    search.near(targets, 0, keep, answer.points, answer.found);
    return answer;
}

TEST(ShellSearch, WhatItFindsIsInTheBookAndAsFarAsItSays) {
    constexpr size_t kKeep = 4;
    std::mt19937_64 random(1);
    for (const int g : {3, 5, 8, 9, 12}) {
        const ShellBook& book = ShellBook::of(g);
        const ShellSearch search(book);
        for (const double deviation : {0.5, 2.0, 5.0, 40.0}) {
            const auto targets = random_targets(random, 19, deviation);
            const Answer answer = search_for(search, targets, kKeep);
            for (size_t p = 0; p < targets.size(); ++p) {
                const size_t count = answer.found[p].count;
                ASSERT_GE(count, 1U);
                const ShellPoint* const points = answer.points.data() + kKeep * p;
                for (size_t n = 0; n < count; ++n) {
                    EXPECT_NEAR(points[n].d2, distance(targets[p], points[n]), 1e-4F * points[n].d2 + 1e-4F);
                    std::array<int, kDimension> x;
                    std::copy(points[n].x.begin(), points[n].x.end(), x.begin());
                    ShellCode code;
                    EXPECT_TRUE(book.encode(points[n].m, points[n].word, x.data(), code));
                    for (size_t before = 0; before < n; ++before) {
                        EXPECT_LE(points[before].d2, points[n].d2);
                        EXPECT_NE(points[before].x, points[n].x);
                    }
                }
            }
        }
    }
}

TEST(ShellSearch, IsExactWhereTheNearestPointIsInside) {
    std::mt19937_64 random(2);
    for (const int g : {4, 6, 8}) {
        const ShellBook& book = ShellBook::of(g);
        const auto targets = random_targets(random, 64, std::pow(2.0, g / 4.0));
        const Answer answer = search_for(ShellSearch(book), targets, 1);
        size_t inside_seen = 0;
        for (size_t p = 0; p < targets.size(); ++p) {
            const float best = exhaustive_distance(book, targets[p]);
            EXPECT_GE(answer.points[p].d2, best - 1e-3F);
            if (answer.found[p].inside) {
                EXPECT_NEAR(answer.points[p].d2, best, 1e-3F);
                ++inside_seen;
            }
        }
        EXPECT_GT(inside_seen, 10U);
    }
}

TEST(ShellSearch, AnswersAreTheSameOnEveryInstructionSetAndBesideAnyNeighbours) {
    constexpr size_t kKeep = 3;
    std::mt19937_64 random(3);
    const ShellBook& book = ShellBook::of(6);
    const auto targets = random_targets(random, 320, 4);
    const Answer wanted = search_for(ShellSearch(book, Simd::scalar), targets, kKeep);
    for (const Simd simd : available_simd()) {
        const ShellSearch search(book, simd);
        for (const size_t together : {size_t{1}, size_t{7}, size_t{16}, targets.size()}) {
            for (size_t first = 0; first < targets.size(); first += together) {
                const size_t count = std::min(together, targets.size() - first);
                const Answer answer = search_for(search, std::span(targets).subspan(first, count), kKeep);
                for (size_t p = 0; p < count; ++p) {
                    ASSERT_EQ(answer.found[p].count, wanted.found[first + p].count);
                    ASSERT_EQ(answer.found[p].inside, wanted.found[first + p].inside);
                    for (size_t n = 0; n < answer.found[p].count; ++n) {
                        const ShellPoint& point = answer.points[kKeep * p + n];
                        EXPECT_EQ(point.x, wanted.points[kKeep * (first + p) + n].x);
                        EXPECT_EQ(point.d2, wanted.points[kKeep * (first + p) + n].d2);
                    }
                }
            }
        }
    }
}

// Two-sided: a book that leaves less than a ball of the lattice could would be a mistake of the measurement.
TEST(ShellSearch, LeavesOfAGaussianWhatTheDesignSays) {
    Monitor monitor;
    for (const int g : {4, 8}) {
        const auto result = shell_distortion(
            g, {.blocks = 1600, .exhaustive = 16, .seed = 4, .threads = 2, .ratio = 1.15}, monitor);
        EXPECT_GT(result.gap_db, 0.7) << g;
        EXPECT_LT(result.gap_db, 1.1) << g;
        EXPECT_GE(result.searched_mse, result.exhaustive_mse * 0.999999);
        EXPECT_LT(result.searched_mse, result.exhaustive_mse * 1.05);
    }
}

}  // namespace
}  // namespace kaiju::lattice
