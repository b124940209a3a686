#include "eval/lattice_shootout.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "base/parallel.h"
#include "codec/scope.h"
#include "codec/tensor_decoder.h"
#include "lattice/decoder.h"
#include "lattice/e8.h"

namespace kaiju::eval {

namespace {

using lattice::kDimension;

constexpr size_t kBlocksAtATime = 512;

/// What one unit of the lattice's coordinates is: the cell's volume^(1/dimension).
double unit_of(LatticeKind kind) {
    return kind == LatticeKind::z ? 1 : kind == LatticeKind::e8 ? 2 : std::numbers::sqrt2 * 2;
}

/// Nearest points of `y`, in the lattice's coordinates.
void nearest(LatticeKind kind, const lattice::Decoder& decoder, std::span<const float> y,
             std::span<int32_t> points) {
    switch (kind) {
        case LatticeKind::z:
            lattice::nearest_z(y, points);
            break;
        case LatticeKind::e8: {
            std::vector<lattice::NearestE8> found(y.size() / lattice::kE8Dimension);
            lattice::nearest_e8(y, found);
            for (size_t i = 0; i < points.size(); ++i) {
                points[i] = found[i / lattice::kE8Dimension].x[i % lattice::kE8Dimension];
            }
            break;
        }
        case LatticeKind::leech: {
            std::vector<lattice::Nearest> found(y.size() / kDimension);
            decoder.nearest(y, found);
            for (size_t i = 0; i < points.size(); ++i) {
                points[i] = found[i / kDimension].x[i % kDimension];
            }
            break;
        }
    }
}

struct Sums {
    double error = 0;
    double energy = 0;  ///< of the points
};

}  // namespace

std::string_view lattice_name(LatticeKind kind) {
    return kind == LatticeKind::z ? "Z" : kind == LatticeKind::e8 ? "E8" : "Leech";
}

double LatticeFigures::gap_to_sphere_db() const {
    return 10 * std::log10(second_moment() * 2 * std::numbers::pi * std::numbers::e);
}

double LatticeFigures::gap_to_bound_db() const {
    return 10 * std::log10(mse * std::exp2(2 * bits));
}

LatticeFigures measure_lattice(LatticeKind kind, std::span<const float> values, double step, int threads) {
    if (!(step > 0) || !std::isfinite(step) || values.empty() || values.size() % kDimension != 0) {
        throw Error(ErrorCode::usage, fmt::format("a step of {} for {} values", step, values.size()));
    }
    const auto decoder = lattice::make_decoder("fast");
    const double scale = unit_of(kind) / step;
    const size_t blocks = values.size() / kDimension;
    std::vector<Sums> pieces((blocks + kBlocksAtATime - 1) / kBlocksAtATime);
    parallel_for(pieces.size(), 1, threads, [&](size_t begin, size_t end) {
        for (size_t piece = begin; piece < end; ++piece) {
            const size_t first = piece * kBlocksAtATime;
            const auto x =
                values.subspan(first * kDimension, std::min(kBlocksAtATime, blocks - first) * kDimension);
            std::vector<float> y(x.size());
            std::ranges::transform(x, y.begin(),
                                   [&](float value) { return static_cast<float>(value * scale); });
            std::vector<int32_t> points(x.size());
            nearest(kind, *decoder, y, points);
            for (size_t i = 0; i < x.size(); ++i) {
                const double point = points[i] / scale;
                pieces[piece].error += (x[i] - point) * (x[i] - point);
                pieces[piece].energy += point * point;
            }
        }
    });
    Sums total;
    for (const Sums& piece : pieces) {
        total.error += piece.error;
        total.energy += piece.energy;
    }
    const auto count = static_cast<double>(values.size());
    return {.kind = kind,
            .step = step,
            .mse = total.error / count,
            .bits = -std::log2(step) + std::log2(2 * std::numbers::pi) / 2 +
                    total.energy / count / (2 * std::numbers::ln2)};
}

LatticeFigures measure_lattice_at(LatticeKind kind, std::span<const float> values, double bits, int threads) {
    constexpr double kFewest = 0.5;
    constexpr double kMost = 8;
    if (!(bits >= kFewest && bits <= kMost)) {
        throw Error(ErrorCode::usage, fmt::format("{} bits: choose {} to {}", bits, kFewest, kMost));
    }
    // Bits fall with the step: bisection on its logarithm.
    double low = -kMost;
    double high = 2;
    constexpr int kHalvings = 30;
    for (int i = 0; i < kHalvings; ++i) {
        const double middle = (low + high) / 2;
        (measure_lattice(kind, values, std::exp2(middle), threads).bits > bits ? low : high) = middle;
    }
    return measure_lattice(kind, values, std::exp2(high), threads);
}

std::vector<float> sample_blocks(const format::ModelFile& model, size_t blocks) {
    std::vector<size_t> tensors;
    for (size_t i = 0; i < model.tensors().size(); ++i) {
        if (codec::is_linear_weight(model.tensors()[i].name) && model.tensors()[i].cols() >= kDimension) {
            tensors.push_back(i);
        }
    }
    if (tensors.empty() || blocks == 0) {
        throw Error(ErrorCode::bad_input,
                    fmt::format("{}: no matrices that an encoder would encode", model.path().string()));
    }
    std::vector<float> values;
    const size_t share = (blocks + tensors.size() - 1) / tensors.size();
    for (const size_t index : tensors) {
        const format::TensorInfo& info = model.tensors()[index];
        const auto decoder = within(fmt::format("{}: tensor {}", model.path().string(), info.name),
                                    [&] { return codec::make_tensor_decoder(info, model.payload(index)); });
        const size_t per_row = std::max<size_t>(info.cols() / kDimension, 1);
        const uint64_t rows = std::min<uint64_t>(info.rows(), (share + per_row - 1) / per_row);
        std::vector<float> row(info.cols());
        for (uint64_t i = 0; i < rows; ++i) {
            decoder->decode_rows(i * info.rows() / rows, 1, row.data());
            double energy = 0;
            for (const float value : row) {
                energy += static_cast<double>(value) * value / static_cast<double>(row.size());
            }
            if (!(energy > 0) || !std::isfinite(energy)) {
                continue;
            }
            const size_t used = std::min(per_row, share - i * per_row) * kDimension;
            for (size_t column = 0; column < used; ++column) {
                values.push_back(static_cast<float>(row[column] / std::sqrt(energy)));
            }
        }
        model.release(index);
    }
    if (values.empty()) {
        throw Error(ErrorCode::bad_input, fmt::format("{}: nothing but zeros", model.path().string()));
    }
    return values;
}

}  // namespace kaiju::eval
