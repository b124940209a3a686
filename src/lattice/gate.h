// Gate G2: proof that a decoder finds nearest points, on this machine, as many as one has patience for.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/monitor.h"
#include "lattice/decoder.h"

namespace kaiju::lattice {

/// Second moment of Λ24 per dimension at covolume 1, as measured on 24 million points (standard
/// error 1.2e-6). The value in the textbooks, 0.065771, is an estimate of 1984.
inline constexpr double kSecondMoment = 0.0657527;

/// A block's RMS over the step that the encoders choose for it (docs/encoder-v1.md): what "at encoder steps"
/// means.
inline constexpr double kBlockRmsPerStep = 2.5;

/// Of fewer points the standard error of the second moment, itself estimated, is no bound to hold it against.
inline constexpr size_t kFewestForMoment = 1000;

/// What to check. Points come from `seed`, whatever the number of threads.
struct GateOptions {
    size_t uniform = 1'000'000;   ///< uniform in a fundamental region
    size_t structured = 120'000;  ///< half-grid values, zeros, deep holes, midpoints, huge values
    size_t blocks = 100'000;      ///< each of Gaussian, Laplacian and (where given) real weight blocks
    size_t code_words = 50'000;   ///< blocks for the search of the finite code book, each parity
    size_t moment = 10'000'000;   ///< uniform, for the second moment only; 0 or kFewestForMoment and more
    uint64_t seed = 1;
    int threads = 1;
};

/// Points whose squared distance is known from elsewhere.
struct KnownPoint {
    std::array<double, kDimension> y;
    double d2;
};

/// How one kind of points did. All counts but the first must be zero.
struct GateSet {
    std::string name;
    uint64_t points = 0;
    uint64_t different = 0;  ///< point, coset or distance not those of the reference: the exhaustive decoder
                             ///< (code words: the branch and bound)
    uint64_t far = 0;  ///< squared distance off by more than 1e-3 from an f64 search on the unrounded input
    uint64_t outside = 0;    ///< answers that are not points of Λ24 (code words: not legal)
    double largest_gap = 0;  ///< the largest difference to that f64 search

    [[nodiscard]] bool pass() const { return different == 0 && far == 0 && outside == 0; }
};

struct GateReport {
    std::vector<GateSet> sets;
    uint64_t moment_points = 0;
    double second_moment = 0;
    double standard_error = 0;
    bool non_finite_refused = false;

    /// Within four standard errors of kSecondMoment.
    [[nodiscard]] bool moment_passes() const;
    [[nodiscard]] bool pass() const;
};

/// Runs the gate on `decoder`. `weights` are blocks of 24 consecutive weights as they are in a model (may be
/// empty): each is scaled to an encoder's step. `known` may be empty. Throws usage where nothing would be
/// tested, or the second moment of too few points.
[[nodiscard]] GateReport run_gate(const Decoder& decoder, const GateOptions& options,
                                  std::span<const float> weights, std::span<const KnownPoint> known,
                                  Monitor& monitor);

/// The points of the gate, also used by benchmarks: `count` points from number `first` on of the kind's
/// stream.
enum class PointKind { uniform, structured, gaussian, laplacian };
void make_points(PointKind kind, uint64_t seed, size_t first, std::span<float> out);

/// Scales blocks of 24 weights to an encoder's step, in place.
void scale_blocks(std::span<float> blocks);

/// Smallest squared distance from y, as it is, to the lattice: all cosets, in doubles. Not exact, and no
/// answer but the distance: it shares nothing with the decoders but the table of words.
[[nodiscard]] double nearest_distance_f64(std::span<const double, kDimension> y);

}  // namespace kaiju::lattice
