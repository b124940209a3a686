#include "codec/rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <queue>
#include <span>
#include <utility>

#include "base/error.h"
#include "codec/encode_model.h"
#include "codec/kaiju4.h"
#include "codec/sensitivity.h"
#include "codec/tensor_encoder.h"

namespace kaiju::codec {

namespace {

using lattice::kLeastIndexBits;
using lattice::kMostIndexBits;

constexpr double kScaleBytes = 2;  // of a row

uint64_t bytes_at(const PlanEntry& entry, int index_bits) {
    return kaiju4::Layout::for_matrix(entry.info.rows(), entry.info.cols(), index_bits).payload_bytes();
}

void set_rate(PlanEntry& entry, int index_bits) {
    entry.info.type = kaiju4::type_name(index_bits);
    entry.info.nbytes = bytes_at(entry, index_bits);
}

/// Excess over energy of at most 32 of the tensor's rows, evenly chosen, at the rate that the entry has.
double sampled_excess(const EncodePlan& plan, const PlanEntry& entry) {
    constexpr uint64_t kPieces = 2;
    constexpr uint64_t kPieceRows = 16;
    const auto search = make_search(plan.options);
    const auto weights =
        make_tensor_decoder(plan.model->tensors()[entry.source], plan.model->payload(entry.source));
    const auto encoder = make_row_encoder(plan, entry, *weights, search);
    const uint64_t piece = std::min<uint64_t>(kPieceRows, encoder->rows());
    const uint64_t pieces = std::min(kPieces, encoder->rows() / piece);
    std::vector<float> rows(piece * encoder->cols());
    std::vector<std::byte> records(piece * encoder->row_bytes());
    EncodeStats sum;
    for (uint64_t n = 0; n < pieces; ++n) {
        std::vector<EncodeStats> stats(piece);
        weights->decode_rows(n * (encoder->rows() / pieces), piece, rows.data());
        encoder->encode_rows(rows.data(), piece, records.data(), stats.data());
        for (const auto& row : stats) {
            sum += row;
        }
    }
    plan.model->release(entry.source);
    return sum.full_energy > 0 ? sum.full_excess / sum.full_energy : 0;
}

/// Bytes that the free entries may take together.
uint64_t budget_of(const EncodePlan& plan, const std::vector<PlanEntry*>& free) {
    uint64_t least = 0;
    double code_bytes = 0;
    for (const PlanEntry* entry : free) {
        least += bytes_at(*entry, kLeastIndexBits);
        const uint64_t blocks = (entry->info.cols() + kaiju4::kBlock - 1) / kaiju4::kBlock;
        const double row = std::ceil(static_cast<double>(blocks * kaiju4::kBlock) * plan.options.bits / 8);
        code_bytes += kaiju4::kHeaderBytes + static_cast<double>(entry->info.rows()) * (kScaleBytes + row);
    }
    if (plan.options.target_size == 0) {
        return static_cast<uint64_t>(std::ceil(code_bytes));
    }
    uint64_t taken = 0;
    for (const PlanEntry* entry : free) {
        taken += entry->info.nbytes;
    }
    // What the whole file may have more than now: the telemetry's name, and digits in the table of contents.
    constexpr uint64_t kTelemetryName = 280;
    constexpr uint64_t kLongerEntry = 8;
    const uint64_t others = planned_whole_bytes(plan) - taken;
    const uint64_t smallest = others + least + kTelemetryName;
    if (plan.options.target_size < smallest) {
        throw Error(
            ErrorCode::usage,
            fmt::format(
                "--target-size {}: at the lowest rate the file has up to {} bytes; give other tensors "
                "a smaller type with --tensor-type",
                plan.options.target_size, smallest));
    }
    return std::max(plan.options.target_size - others - kTelemetryName, least + kLongerEntry * free.size()) -
           kLongerEntry * free.size();
}

/// The highest rate that all can have. Returns the bytes that it leaves of the budget.
uint64_t raise_uniform(const std::vector<PlanEntry*>& free, uint64_t budget) {
    for (int index_bits = kMostIndexBits; index_bits >= kLeastIndexBits; --index_bits) {
        uint64_t taken = 0;
        for (PlanEntry* entry : free) {
            set_rate(*entry, index_bits);
            taken += entry->info.nbytes;
        }
        if (taken <= budget || index_bits == kLeastIndexBits) {
            return budget - std::min(taken, budget);
        }
    }
    return 0;
}

/// A step up for one tensor, and what it buys.
struct Step {
    double saved_per_byte = 0;
    uint64_t bytes = 0;
    size_t which = 0;
};

// One step at most: shared out freely, bits leave tensors whose inputs have one huge direction, in which all
// is energy and nothing is lost, and the model is worse for it.
void raise_by_excess(const EncodePlan& plan, const std::vector<PlanEntry*>& free, uint64_t left) {
    std::vector<Step> steps;
    for (size_t i = 0; i < free.size(); ++i) {
        const int rate = *kaiju4::index_bits_of(free[i]->info.type);
        if (rate < kMostIndexBits) {
            steps.push_back({.bytes = bytes_at(*free[i], rate + 1) - free[i]->info.nbytes, .which = i});
        }
    }
    if (std::none_of(steps.begin(), steps.end(), [&](const Step& step) { return step.bytes <= left; })) {
        return;
    }
    // A code book's error falls by 4 a bit, so what a step saves is a fixed part of the excess.
    for (Step& step : steps) {
        step.saved_per_byte = sampled_excess(plan, *free[step.which]) / static_cast<double>(step.bytes);
    }
    std::stable_sort(steps.begin(), steps.end(),
                     [](const Step& a, const Step& b) { return a.saved_per_byte > b.saved_per_byte; });
    for (const Step& step : steps) {
        if (step.bytes <= left) {
            left -= step.bytes;
            PlanEntry& entry = *free[step.which];
            set_rate(entry, *kaiju4::index_bits_of(entry.info.type) + 1);
        }
    }
}

/// What each of the tensors costs the model as it was measured, in numbers that compare.
std::vector<double> costs_of(const EncodePlan& plan, const std::vector<PlanEntry*>& free) {
    const Sensitivity sensitivity = read_sensitivity(plan.options.sensitivity);
    constexpr double kLeast = 1e-9;  // what measures as nothing still wants its bits in the end
    std::vector<double> costs;
    for (const PlanEntry* entry : free) {
        const auto place = format::place_of(entry->info.name);
        const auto cost = place ? sensitivity.cost(*place) : std::nullopt;
        if (!cost) {
            throw Error(ErrorCode::bad_input,
                        fmt::format("{}: says nothing of tensor {}: measure it on a knot in which that is "
                                    "encoded",
                                    plan.options.sensitivity.string(), entry->info.name));
        }
        costs.push_back(std::max(*cost, kLeast));
    }
    return costs;
}

/// The sizes that a tensor may have, counted from the smallest, which is 0.
class Sizes {
  public:
    virtual ~Sizes() = default;
    [[nodiscard]] virtual int count() const = 0;
    [[nodiscard]] virtual uint64_t bytes(int size) const = 0;
    /// Of the tensor, up to a factor. Falls, and by less from size to size.
    [[nodiscard]] virtual double error(int size) const = 0;
    virtual void choose(int size) const = 0;
};

/// KAIJU4: its rates. A code book's error falls by 4 a bit.
class RateSizes final : public Sizes {
  public:
    explicit RateSizes(PlanEntry& entry) : entry_(entry) {}
    [[nodiscard]] int count() const override { return kMostIndexBits - kLeastIndexBits + 1; }
    [[nodiscard]] uint64_t bytes(int size) const override { return bytes_at(entry_, kLeastIndexBits + size); }
    [[nodiscard]] double error(int size) const override { return std::pow(4.0, -size / 4.0); }
    void choose(int size) const override { set_rate(entry_, kLeastIndexBits + size); }

  private:
    PlanEntry& entry_;
};

/// The layout with so many blocks, and the rest of the columns in the side-band.
kaiju1::Layout with_blocks(kaiju1::Layout layout, uint32_t n_blocks) {
    layout.n_blocks = n_blocks;
    layout.n_hi = layout.cols - n_blocks * static_cast<uint32_t>(kaiju1::kBlock);
    return layout;
}

/// KAIJU1: the error of encoder v3 by the part of the columns that the side-band has. How much a side-band
/// takes up differs from role to role, so that it is measured.
class SideBandCurve {
  public:
    /// Of sample rows of at most three of the tensors, evenly chosen, as a geometric mean.
    SideBandCurve(const EncodePlan& plan, std::span<const PlanEntry* const> tensors) {
        constexpr size_t kTensors = 3;
        constexpr std::array<double, 7> kParts = {0, 0.02, 0.04, 0.08, 0.12, 0.2, 0.33};
        constexpr double kLeast = 1e-12;
        const size_t count = std::min(kTensors, tensors.size());
        for (const double wanted : kParts) {
            std::vector<PlanEntry> samples;
            Point mean;
            for (size_t n = 0; n < count; ++n) {
                PlanEntry& entry = samples.emplace_back(*tensors[(2 * n + 1) * tensors.size() / (2 * count)]);
                kaiju1::Layout& layout = entry.layout;
                layout = with_blocks(layout,
                                     kaiju1::Layout::for_matrix(layout.rows, layout.cols, wanted).n_blocks);
                mean.part += part_of(layout) / static_cast<double>(count);
            }
            if (!points_.empty() && mean.part <= points_.back().part) {
                continue;  // narrow matrices have few side-bands
            }
            for (const PlanEntry& entry : samples) {
                mean.log_error +=
                    std::log(std::max(sampled_excess(plan, entry), kLeast)) / static_cast<double>(count);
            }
            points_.push_back(mean);
        }
    }

    /// Linear between the points in its logarithm, and beyond the last as before it.
    [[nodiscard]] double error(const kaiju1::Layout& layout) const {
        if (points_.size() == 1) {
            return std::exp(points_[0].log_error);
        }
        const double part = part_of(layout);
        size_t right = 1;
        while (right + 1 < points_.size() && points_[right].part < part) {
            ++right;
        }
        const Point& a = points_[right - 1];
        const Point& b = points_[right];
        return std::exp(a.log_error + (b.log_error - a.log_error) * (part - a.part) / (b.part - a.part));
    }

  private:
    struct Point {
        double part = 0;
        double log_error = 0;
    };
    static double part_of(const kaiju1::Layout& layout) {
        return static_cast<double>(layout.n_hi) / layout.cols;
    }

    std::vector<Point> points_;
};

/// KAIJU1: the side-band, 24 columns more from size to size, up to three fifths of all.
class SideBandSizes final : public Sizes {
  public:
    SideBandSizes(PlanEntry& entry, const SideBandCurve& curve)
        : entry_(entry), planned_(entry.layout), curve_(curve), planned_error_(curve.error(planned_)) {}
    [[nodiscard]] int count() const override {
        const uint32_t most = std::max(planned_.cols / 5 * 3, planned_.n_hi);
        return 1 + static_cast<int>((most - planned_.cols % kBlock) / kBlock);
    }
    [[nodiscard]] uint64_t bytes(int size) const override { return with(size).payload_bytes(); }
    [[nodiscard]] double error(int size) const override { return curve_.error(with(size)) / planned_error_; }
    void choose(int size) const override {
        entry_.layout = with(size);
        entry_.info.nbytes = entry_.layout.payload_bytes();
    }

  private:
    static constexpr uint32_t kBlock = kaiju1::kBlock;
    [[nodiscard]] kaiju1::Layout with(int size) const {
        return with_blocks(planned_, planned_.cols / kBlock - static_cast<uint32_t>(size));
    }

    PlanEntry& entry_;
    kaiju1::Layout planned_;  ///< the one that the cost was measured with
    const SideBandCurve& curve_;
    double planned_error_;
};

/// From the smallest sizes on, the step that saves most of the cost for its bytes, as often as one fits.
/// costs: of each tensor where its error is 1.
void raise_by_cost(std::span<const std::unique_ptr<Sizes>> tensors, std::span<const double> costs,
                   uint64_t budget) {
    struct Best {
        double saved_per_byte;
        size_t which;
        bool operator<(const Best& other) const {
            return std::pair(saved_per_byte, other.which) < std::pair(other.saved_per_byte, which);
        }
    };
    std::vector<int> chosen(tensors.size(), 0);
    uint64_t taken = 0;
    std::priority_queue<Best> queue;
    const auto bytes_of_step = [&](size_t i) {
        return tensors[i]->bytes(chosen[i] + 1) - tensors[i]->bytes(chosen[i]);
    };
    const auto offer = [&](size_t i) {
        if (chosen[i] + 1 < tensors[i]->count()) {
            const double saved = tensors[i]->error(chosen[i]) - tensors[i]->error(chosen[i] + 1);
            queue.push({costs[i] * saved / static_cast<double>(bytes_of_step(i)), i});
        }
    };
    for (size_t i = 0; i < tensors.size(); ++i) {
        taken += tensors[i]->bytes(0);
        offer(i);
    }
    while (!queue.empty()) {
        const size_t i = queue.top().which;
        queue.pop();
        const uint64_t bytes = bytes_of_step(i);
        if (taken + bytes <= budget) {  // otherwise it has what it can get; a smaller one may still fit
            taken += bytes;
            ++chosen[i];
            offer(i);
        }
    }
    for (size_t i = 0; i < tensors.size(); ++i) {
        tensors[i]->choose(chosen[i]);
    }
}

void choose_side_bands(const EncodePlan& plan, const std::vector<PlanEntry*>& free) {
    const std::vector<double> costs = costs_of(plan, free);
    std::map<std::string, std::vector<const PlanEntry*>, std::less<>> roles;
    const auto role_of = [](const PlanEntry& entry) {
        return std::string(format::place_of(entry.info.name)->role);  // costs_of knows it
    };
    uint64_t budget = 0;
    for (const PlanEntry* entry : free) {
        budget += entry->info.nbytes;
        roles[role_of(*entry)].push_back(entry);
    }
    std::map<std::string, SideBandCurve, std::less<>> curves;
    for (const auto& [role, tensors] : roles) {
        curves.emplace(role, SideBandCurve(plan, tensors));
    }
    std::vector<std::unique_ptr<Sizes>> sizes;
    sizes.reserve(free.size());
    for (PlanEntry* entry : free) {
        sizes.push_back(std::make_unique<SideBandSizes>(*entry, curves.at(role_of(*entry))));
    }
    raise_by_cost(sizes, costs, budget);
}

}  // namespace

void choose_rates(EncodePlan& plan) {
    std::vector<PlanEntry*> free;
    for (PlanEntry& entry : plan.entries) {
        if (entry.free_rate) {
            free.push_back(&entry);
        }
    }
    const bool by_sensitivity = !plan.options.sensitivity.empty();
    if (plan.options.wire == "KAIJU1") {
        if (by_sensitivity && !free.empty()) {
            choose_side_bands(plan, free);
        }
        return;
    }
    const uint64_t budget = budget_of(plan, free);  // refuses what cannot be, also where nothing is free
    if (free.empty()) {
        return;
    }
    if (by_sensitivity) {
        std::vector<std::unique_ptr<Sizes>> sizes;
        sizes.reserve(free.size());
        for (PlanEntry* entry : free) {
            sizes.push_back(std::make_unique<RateSizes>(*entry));
        }
        raise_by_cost(sizes, costs_of(plan, free), budget);
        return;
    }
    const uint64_t left = raise_uniform(free, budget);
    if (plan.options.rates == Rates::measured) {
        raise_by_excess(plan, free, left);
    }
}

}  // namespace kaiju::codec
