// Z, E8 and the Leech lattice as quantisers of real rows: distortion per bit.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "format/model_file.h"

namespace kaiju::eval {

enum class LatticeKind { z, e8, leech };
[[nodiscard]] std::string_view lattice_name(LatticeKind kind);

/// One lattice at one step, on values of unit variance.
struct LatticeFigures {
    LatticeKind kind = LatticeKind::z;
    double step = 0;  ///< (volume of a cell)^(1/dimension)
    double mse = 0;   ///< mean squared error a dimension, relative to the variance
    /// Bits a dimension of an entropy coder made for a Gaussian of the values' variance:
    /// -log2(step · density at the point), which sums to a code within 2 % up to a step of 2.
    double bits = 0;

    /// mse / step²: at small steps the lattice's own constant, 1/12 for Z.
    [[nodiscard]] double second_moment() const { return mse / (step * step); }
    /// How far second_moment() is above 1/(2πe), which no lattice passes; in dB.
    [[nodiscard]] double gap_to_sphere_db() const;
    /// How far mse is above 4^-bits, the least that a Gaussian source allows; in dB.
    [[nodiscard]] double gap_to_bound_db() const;
};

/// `values`: whole blocks of 24. The result does not depend on the number of threads. Throws usage for a step
/// that is not positive.
[[nodiscard]] LatticeFigures measure_lattice(LatticeKind kind, std::span<const float> values, double step,
                                             int threads);

/// At the step that gives `bits` a dimension, 0.5 to 8.
[[nodiscard]] LatticeFigures measure_lattice_at(LatticeKind kind, std::span<const float> values, double bits,
                                                int threads);

/// About `blocks` blocks of 24 consecutive weights, spread evenly over the matrices that an encoder would
/// encode; each row divided by its RMS. Throws bad_input where the model has none.
[[nodiscard]] std::vector<float> sample_blocks(const format::ModelFile& model, size_t blocks);

}  // namespace kaiju::eval
