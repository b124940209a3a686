#include "codec/rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <queue>
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

/// What each of the tensors costs the model at the lowest rate, in numbers that compare.
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

/// From the lowest rate on, the step that saves most of the cost for its bytes, as often as one fits: a code
/// book's error falls by 4 a bit, and so does what it costs.
void raise_by_sensitivity(const EncodePlan& plan, const std::vector<PlanEntry*>& free, uint64_t left) {
    const double per_step = std::pow(4.0, -0.25);
    struct Best {
        double saved_per_byte;
        size_t which;
        bool operator<(const Best& other) const {
            return std::pair(saved_per_byte, other.which) < std::pair(other.saved_per_byte, which);
        }
    };
    std::vector<double> costs = costs_of(plan, free);
    const auto bytes_of_step = [&](size_t i) {
        return bytes_at(*free[i], *kaiju4::index_bits_of(free[i]->info.type) + 1) - free[i]->info.nbytes;
    };
    std::priority_queue<Best> queue;
    const auto offer = [&](size_t i) {
        if (*kaiju4::index_bits_of(free[i]->info.type) < kMostIndexBits) {
            queue.push({costs[i] * (1 - per_step) / static_cast<double>(bytes_of_step(i)), i});
        }
    };
    for (size_t i = 0; i < free.size(); ++i) {
        set_rate(*free[i], kLeastIndexBits);
        offer(i);
    }
    while (!queue.empty()) {
        const size_t i = queue.top().which;
        queue.pop();
        const uint64_t bytes = bytes_of_step(i);
        if (bytes <= left) {  // otherwise it has what it can get; a smaller one may still fit
            left -= bytes;
            set_rate(*free[i], *kaiju4::index_bits_of(free[i]->info.type) + 1);
            costs[i] *= per_step;
            offer(i);
        }
    }
}

}  // namespace

void choose_rates(EncodePlan& plan) {
    std::vector<PlanEntry*> free;
    for (PlanEntry& entry : plan.entries) {
        if (entry.free_rate) {
            free.push_back(&entry);
        }
    }
    const uint64_t budget = budget_of(plan, free);  // refuses what cannot be, also where nothing is free
    if (free.empty()) {
        return;
    }
    if (!plan.options.sensitivity.empty()) {
        uint64_t least = 0;
        for (const PlanEntry* entry : free) {
            least += bytes_at(*entry, kLeastIndexBits);
        }
        raise_by_sensitivity(plan, free, budget - std::min(budget, least));
        return;
    }
    const uint64_t left = raise_uniform(free, budget);
    if (plan.options.rates == Rates::measured) {
        raise_by_excess(plan, free, left);
    }
}

}  // namespace kaiju::codec
