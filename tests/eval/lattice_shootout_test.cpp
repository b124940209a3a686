#include "eval/lattice_shootout.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/error.h"
#include "lattice/gate.h"
#include "support/test_files.h"
#include "support/tiny_model.h"

namespace kaiju::eval {
namespace {

std::vector<float> gaussian(size_t blocks) {
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    std::vector<float> values(blocks * 24);
    for (float& value : values) {
        value = normal(random);
    }
    return values;
}

TEST(LatticeShootout, fine_steps_show_the_constants_of_the_lattices) {
    const auto values = gaussian(10'000);
    constexpr double kFine = 0.05;
    const auto moment = [&](LatticeKind kind) {
        return measure_lattice(kind, values, kFine, 2).second_moment();
    };
    EXPECT_NEAR(moment(LatticeKind::z), 1.0 / 12, 0.0005);
    EXPECT_NEAR(moment(LatticeKind::e8), 0.0716821, 0.0004);  // Conway and Sloane, table 2.3
    EXPECT_NEAR(moment(LatticeKind::leech), lattice::kSecondMoment, 0.0003);
    EXPECT_NEAR(measure_lattice(LatticeKind::z, values, kFine, 1).gap_to_sphere_db(), 1.533, 0.02);
    // At high rate the two distances are one.
    const LatticeFigures fine = measure_lattice(LatticeKind::leech, values, kFine, 1);
    EXPECT_NEAR(fine.gap_to_sphere_db(), fine.gap_to_bound_db(), 0.03);
    EXPECT_EQ(fine.mse, measure_lattice(LatticeKind::leech, values, kFine, 3).mse) << "threads";
}

TEST(LatticeShootout, at_one_rate_the_leech_lattice_is_nearest_to_the_bound) {
    const auto values = gaussian(2'000);
    for (const double bits : {3.0, 4.0}) {  // below, the coder that the rate is of costs much itself
        const LatticeFigures z = measure_lattice_at(LatticeKind::z, values, bits, 2);
        const LatticeFigures e8 = measure_lattice_at(LatticeKind::e8, values, bits, 2);
        const LatticeFigures leech = measure_lattice_at(LatticeKind::leech, values, bits, 2);
        for (const LatticeFigures& one : {z, e8, leech}) {
            EXPECT_NEAR(one.bits, bits, 1e-3);
            EXPECT_GT(one.gap_to_bound_db(), 0.4);
            EXPECT_LT(one.gap_to_bound_db(), 1.7);
        }
        EXPECT_LT(leech.mse, e8.mse);
        EXPECT_LT(e8.mse, z.mse);
    }
}

TEST(LatticeShootout, samples_rows_of_every_matrix) {
    const kaiju::test::TemporaryFolder folder;
    const auto model = format::ModelFile::open(kaiju::test::write_tiny_model(folder / "m.gguf"));
    const auto values = sample_blocks(*model, 120);
    EXPECT_EQ(values.size() % 24, 0U);
    EXPECT_EQ(values.size() / 24, 120U) << "ten of each of twelve matrices";
    double energy = 0;
    for (const float value : values) {
        energy += static_cast<double>(value) * value / static_cast<double>(values.size());
    }
    EXPECT_NEAR(energy, 1, 0.2);
    EXPECT_THROW(static_cast<void>(measure_lattice(LatticeKind::z, values, 0, 1)), Error);
    EXPECT_THROW(static_cast<void>(measure_lattice_at(LatticeKind::z, values, 0.1, 1)), Error);
}

}  // namespace
}  // namespace kaiju::eval
