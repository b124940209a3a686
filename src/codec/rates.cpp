#include "codec/rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "codec/encode_model.h"
#include "codec/kaiju4.h"
#include "codec/tensor_encoder.h"

namespace kaiju::codec {

namespace {

using lattice::kLeastIndexBits;
using lattice::kMostIndexBits;

constexpr double kBitsPerIndexBit = 0.25;

void set_rate(PlanEntry& entry, int index_bits) {
    entry.info.type = kaiju4::type_name(index_bits);
    entry.info.nbytes =
        kaiju4::Layout::for_matrix(entry.info.rows(), entry.info.cols(), index_bits).payload_bytes();
}

uint64_t bytes_at(const PlanEntry& entry, int index_bits) {
    return kaiju4::Layout::for_matrix(entry.info.rows(), entry.info.cols(), index_bits).payload_bytes();
}

/// Excess over energy of at most 32 of the tensor's rows, evenly chosen, at the rate that the entry has.
double sampled_excess(const EncodePlan& plan, const PlanEntry& entry) {
    constexpr uint64_t kPieces = 2;
    const auto search = make_search(plan.options);
    const auto weights =
        make_tensor_decoder(plan.model->tensors()[entry.source], plan.model->payload(entry.source));
    const auto encoder = make_row_encoder(plan, entry, *weights, search);
    const uint64_t piece = std::min<uint64_t>(encoder->rows_per_piece(), encoder->rows());
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
        // What stays the same at every rate: header and row scales.
        const uint64_t fixed = kaiju4::kHeaderBytes + 2 * entry->info.rows();
        const uint64_t blocks =
            entry->info.rows() * ((entry->info.cols() + kaiju4::kBlock - 1) / kaiju4::kBlock);
        code_bytes +=
            static_cast<double>(fixed) + static_cast<double>(blocks * kaiju4::kBlock) * plan.options.bits / 8;
    }
    if (plan.options.target_size == 0) {
        return static_cast<uint64_t>(std::ceil(code_bytes));
    }
    uint64_t taken = 0;
    for (const PlanEntry* entry : free) {
        taken += entry->info.nbytes;
    }
    // Types and lengths in the table of contents have up to so many characters more than now.
    constexpr uint64_t kLongerEntry = 8;
    const uint64_t others = planned_file_bytes(plan) - taken + kLongerEntry * free.size();
    if (plan.options.target_size < others + least) {
        throw Error(
            ErrorCode::usage,
            fmt::format("--target-size {}: at the lowest rate the file has {} bytes; give other tensors "
                        "a smaller type with --tensor-type",
                        plan.options.target_size, others + least));
    }
    return plan.options.target_size - others;
}

/// A step up for one tensor, and what it buys.
struct Step {
    double saved_per_byte = 0;
    size_t which = 0;
};

void raise_measured(const EncodePlan& plan, std::vector<PlanEntry*>& free, uint64_t budget) {
    constexpr int kSampled = 8;
    std::vector<double> excess(free.size());
    std::vector<int> rate(free.size(), kLeastIndexBits);
    uint64_t taken = 0;
    for (size_t i = 0; i < free.size(); ++i) {
        set_rate(*free[i], kSampled);
        excess[i] = sampled_excess(plan, *free[i]);
        taken += bytes_at(*free[i], kLeastIndexBits);
    }
    // A code book's error falls by 4 a bit; what a step saves falls with it, so the best step first is best.
    const auto step_of = [&](size_t i) {
        const double now = excess[i] * std::pow(4, kBitsPerIndexBit * (kSampled - rate[i]));
        const double saved = now * (1 - std::pow(4, -kBitsPerIndexBit));
        const auto bytes = bytes_at(*free[i], rate[i] + 1) - bytes_at(*free[i], rate[i]);
        return Step{.saved_per_byte = saved / static_cast<double>(bytes), .which = i};
    };
    const auto less = [](const Step& a, const Step& b) {
        return a.saved_per_byte != b.saved_per_byte ? a.saved_per_byte < b.saved_per_byte : a.which > b.which;
    };
    std::vector<Step> heap;
    for (size_t i = 0; i < free.size(); ++i) {
        heap.push_back(step_of(i));
    }
    std::make_heap(heap.begin(), heap.end(), less);
    while (!heap.empty()) {
        std::pop_heap(heap.begin(), heap.end(), less);
        const size_t i = heap.back().which;
        heap.pop_back();
        const uint64_t more = bytes_at(*free[i], rate[i] + 1) - bytes_at(*free[i], rate[i]);
        if (taken + more > budget) {
            continue;  // a smaller tensor may still fit
        }
        taken += more;
        ++rate[i];
        if (rate[i] < kMostIndexBits) {
            heap.push_back(step_of(i));
            std::push_heap(heap.begin(), heap.end(), less);
        }
    }
    for (size_t i = 0; i < free.size(); ++i) {
        set_rate(*free[i], rate[i]);
    }
}

void raise_uniform(const std::vector<PlanEntry*>& free, uint64_t budget) {
    for (int index_bits = kMostIndexBits; index_bits >= kLeastIndexBits; --index_bits) {
        uint64_t taken = 0;
        for (PlanEntry* entry : free) {
            set_rate(*entry, index_bits);
            taken += entry->info.nbytes;
        }
        if (taken <= budget) {
            return;
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
    if (free.empty()) {
        return;
    }
    const uint64_t budget = budget_of(plan, free);
    if (plan.options.rates == Rates::uniform) {
        raise_uniform(free, budget);
    } else {
        raise_measured(plan, free, budget);
    }
}

}  // namespace kaiju::codec
