#include "lattice/gate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "lattice/decoders.h"
#include "lattice/leech.h"
#include "support/test_files.h"

namespace kaiju::lattice {

namespace {

std::vector<KnownPoint> golden_points() {
    std::ifstream file(test::golden_dir() / "points.jsonl");
    std::vector<KnownPoint> points;
    std::string line;
    while (std::getline(file, line)) {
        const auto golden = nlohmann::json::parse(line);
        points.push_back(
            {golden.at("y").get<std::array<double, kDimension>>(), golden.at("d2").get<double>()});
    }
    return points;
}

/// Right but for one answer in a hundred, where it is off by a lattice vector.
class Careless final : public Decoder {
  public:
    [[nodiscard]] std::string_view name() const override { return "careless"; }

  protected:
    void search(const int32_t* residual, const int32_t* shift, std::span<Nearest> out) const override {
        for (size_t p = 0; p < out.size(); ++p) {
            const GridPoint point(residual + p * kDimension, kDimension);
            // The coset of the origin where the residual happens to look so, the right one elsewhere.
            std::vector<float> y(kDimension);
            for (size_t i = 0; i < kDimension; ++i) {
                y[i] = static_cast<float>(residual[p * kDimension + i]) / kGridUnit;
            }
            exact_->nearest(std::span<const float>(y), out.subspan(p, 1));
            if (residual[p * kDimension] % 100 == 0) {
                nearest_in_coset(point, {0, 0}, out[p]);
            }
            for (size_t i = 0; i < kDimension; ++i) {
                out[p].x[i] += shift[p * kDimension + i];
            }
        }
    }

  private:
    std::unique_ptr<Decoder> exact_ = make_pruned_decoder();
};

}  // namespace

TEST(Gate, TheFastDecoderPassesOnEveryInstructionSet) {
    const auto known = golden_points();
    ASSERT_EQ(known.size(), 506U);
    std::vector<float> weights(500 * kDimension);
    for (size_t i = 0; i < weights.size(); ++i) {
        weights[i] = 0.01F * std::sin(static_cast<float>(i * i % 1009));
    }
    GateOptions options;
    options.uniform = 3000;
    options.structured = 3000;
    options.blocks = 1000;
    options.moment = 20000;
    options.code_words = 500;
    options.threads = 2;
    Monitor monitor;
    for (const Simd simd : available_simd()) {
        const GateReport report = run_gate(*make_fast_decoder(simd), options, weights, known, monitor);
        ASSERT_EQ(report.sets.size(), 10U);
        for (const GateSet& set : report.sets) {
            EXPECT_TRUE(set.pass()) << set.name << " on " << simd_name(simd) << ": " << set.different
                                    << " different, " << set.far << " far, " << set.outside << " outside of "
                                    << set.points;
            EXPECT_GE(set.points, 500U);
            EXPECT_LE(set.largest_gap, 1e-3);
        }
        EXPECT_TRUE(report.moment_passes()) << report.second_moment << " +- " << report.standard_error;
        EXPECT_TRUE(report.non_finite_refused);
        EXPECT_TRUE(report.pass());
    }
}

TEST(Gate, DoesNotDependOnThreads) {
    GateOptions options;
    options.uniform = options.structured = options.blocks = options.code_words = 100;
    options.moment = 10000;
    Monitor monitor;
    const auto decoder = make_fast_decoder(available_simd().back());
    const GateReport one = run_gate(*decoder, options, {}, {}, monitor);
    options.threads = 3;
    const GateReport three = run_gate(*decoder, options, {}, {}, monitor);
    EXPECT_EQ(one.second_moment, three.second_moment);
    EXPECT_EQ(one.standard_error, three.standard_error);
    EXPECT_EQ(one.sets[0].largest_gap, three.sets[0].largest_gap);
}

TEST(Gate, NoticesADecoderThatIsSometimesWrong) {
    GateOptions options;
    options.uniform = 2000;
    options.structured = 200;
    options.blocks = options.code_words = 10;
    options.moment = 0;
    Monitor monitor;
    const GateReport report = run_gate(Careless(), options, {}, {}, monitor);
    EXPECT_FALSE(report.pass());
    EXPECT_GT(report.sets[0].different, 5U);
    EXPECT_GT(report.sets[0].far, 5U);
    EXPECT_LT(report.sets[0].different, 100U);
    EXPECT_EQ(report.sets[0].outside, 0U);  // wrong, but lattice points
}

TEST(Gate, ADistanceThatContradictsAKnownPointFails) {
    std::vector<KnownPoint> known = golden_points();
    known.resize(3);
    known[1].d2 += 0.01;
    GateOptions options;
    options.uniform = options.structured = options.blocks = options.code_words = options.moment = 0;
    Monitor monitor;
    const GateReport report = run_gate(*make_decoder("pruned"), options, {}, known, monitor);
    EXPECT_FALSE(report.pass());
    EXPECT_EQ(report.sets.back().far, 1U);
    EXPECT_EQ(report.sets.back().different, 0U);
}

TEST(Gate, DoesNotPassWithoutATest) {
    Monitor monitor;
    const auto decoder = make_decoder("pruned");
    const auto refused = [&](const GateOptions& options, std::span<const float> weights) {
        try {
            (void)run_gate(*decoder, options, weights, {}, monitor);
        } catch (const Error& error) {
            return error.code() == ErrorCode::usage;
        }
        return false;
    };
    GateOptions options;
    options.uniform = options.structured = options.blocks = options.code_words = options.moment = 0;
    EXPECT_TRUE(refused(options, {}));
    for (const size_t points : {size_t{1}, size_t{2}, kFewestForMoment - 1}) {
        options.moment = points;
        EXPECT_TRUE(refused(options, {})) << points << " points have no second moment to speak of";
    }
    options.moment = kFewestForMoment;
    EXPECT_FALSE(refused(options, {}));
    EXPECT_TRUE(refused(options, std::vector<float>(kDimension, 1))) << "blocks that would not be looked at";
    const GateReport report = run_gate(*decoder, options, {}, {}, monitor);
    EXPECT_TRUE(report.sets.empty()) << "what was not tested is not listed as passed";
    EXPECT_TRUE(report.pass());
}

TEST(Gate, BlocksComeAtTheStepsOfTheEncoder) {
    std::vector<float> blocks(100 * kDimension);
    for (const PointKind kind : {PointKind::gaussian, PointKind::laplacian}) {
        make_points(kind, 5, 0, blocks);
        for (size_t b = 0; b < 100; ++b) {
            double squares = 0;
            for (size_t i = 0; i < kDimension; ++i) {
                squares += double{blocks[b * kDimension + i]} * blocks[b * kDimension + i];
            }
            EXPECT_NEAR(std::sqrt(squares / kDimension), kBlockRmsPerStep, 1e-5);
        }
    }
    std::vector<float> zeros(kDimension);
    scale_blocks(zeros);
    EXPECT_EQ(zeros, std::vector<float>(kDimension));
}

}  // namespace kaiju::lattice
