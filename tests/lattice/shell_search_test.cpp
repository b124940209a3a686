#include "lattice/shell_search.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/monitor.h"
#include "lattice/golay.h"
#include "lattice/shell_gate.h"

namespace kaiju::lattice {
namespace {

using Batch = std::array<float, kDimension * kShellLanes>;

Batch random_batch(std::mt19937_64& random, double deviation) {
    std::normal_distribution<double> normal(0, deviation);
    Batch y;
    std::generate(y.begin(), y.end(), [&] { return static_cast<float>(normal(random)); });
    return y;
}

float distance(const Batch& y, size_t p, const ShellPoint& point) {
    float d2 = 0;
    for (size_t i = 0; i < kDimension; ++i) {
        const float e = y[i * kShellLanes + p] - static_cast<float>(point.x[i]);
        d2 += e * e;
    }
    return d2;
}

TEST(ShellSearch, WhatItFindsIsInTheBookAndAsFarAsItSays) {
    constexpr size_t kKeep = 4;
    std::mt19937_64 random(1);
    for (const int g : {3, 5, 8, 9, 12}) {
        const ShellBook& book = ShellBook::of(g);
        const ShellSearch search(book);
        for (const double deviation : {0.5, 2.0, 5.0, 40.0}) {
            const Batch y = random_batch(random, deviation);
            std::array<ShellPoint, kKeep * kShellLanes> out;
            std::array<uint8_t, kShellLanes> found;
            search.near(y.data(), 0xFFFF, 0, kKeep, out.data(), found);
            for (size_t p = 0; p < kShellLanes; ++p) {
                ASSERT_GE(found[p], 1U);
                for (size_t n = 0; n < found[p]; ++n) {
                    const ShellPoint& point = out[kKeep * p + n];
                    EXPECT_NEAR(point.d2, distance(y, p, point), 1e-4F * point.d2 + 1e-4F);
                    std::array<int, kDimension> x;
                    std::copy(point.x.begin(), point.x.end(), x.begin());
                    ShellCode code;
                    EXPECT_TRUE(book.encode(point.m, point.word, x.data(), code));
                    for (size_t before = 0; before < n; ++before) {
                        EXPECT_LE(out[kKeep * p + before].d2, point.d2);
                        EXPECT_NE(out[kKeep * p + before].x, point.x);
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
        const ShellSearch search(book);
        size_t inside_seen = 0;
        for (int n = 0; n < 4; ++n) {
            const Batch y = random_batch(random, std::pow(2.0, g / 4.0));
            std::array<ShellPoint, kShellLanes> out;
            std::array<uint8_t, kShellLanes> found;
            const uint32_t inside = search.near(y.data(), 0xFFFF, 0, 1, out.data(), found);
            for (size_t p = 0; p < kShellLanes; ++p) {
                std::array<float, kDimension> point;
                for (size_t i = 0; i < kDimension; ++i) {
                    point[i] = y[i * kShellLanes + p];
                }
                const float best = exhaustive_distance(book, point);
                EXPECT_GE(out[p].d2, best - 1e-3F);
                if ((inside >> p & 1) != 0) {
                    EXPECT_NEAR(out[p].d2, best, 1e-3F);
                    ++inside_seen;
                }
            }
        }
        EXPECT_GT(inside_seen, 10U);
    }
}

TEST(ShellSearch, AnswersAreTheSameOnEveryInstructionSetAndBesideAnyNeighbours) {
    constexpr size_t kKeep = 3;
    std::mt19937_64 random(3);
    const ShellBook& book = ShellBook::of(6);
    for (int n = 0; n < 20; ++n) {
        const Batch y = random_batch(random, 4);
        std::array<ShellPoint, kKeep * kShellLanes> wanted;
        std::array<uint8_t, kShellLanes> wanted_found;
        const ShellSearch scalar(book, Simd::scalar);
        const uint32_t inside = scalar.near(y.data(), 0xFFFF, 0, kKeep, wanted.data(), wanted_found);
        for (const Simd simd : available_simd()) {
            const ShellSearch search(book, simd);
            for (const uint32_t asked : {0xFFFFU, 0x1234U}) {
                std::array<ShellPoint, kKeep * kShellLanes> out;
                std::array<uint8_t, kShellLanes> found;
                EXPECT_EQ(search.near(y.data(), asked, 0, kKeep, out.data(), found), inside & asked);
                for (size_t p = 0; p < kShellLanes; ++p) {
                    ASSERT_EQ(found[p], (asked >> p & 1) != 0 ? wanted_found[p] : 0);
                    for (size_t i = kKeep * p; i < kKeep * p + found[p]; ++i) {
                        EXPECT_EQ(out[i].x, wanted[i].x);
                        EXPECT_EQ(out[i].d2, wanted[i].d2);
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
