#include "eval/tap_collector.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "codec/scope.h"
#include "format/key_values.h"
#include "format/taps.h"

namespace kaiju::eval {

namespace {

std::vector<TapPlan> list_taps(const format::ModelFile& file) {
    std::vector<TapPlan> taps;
    for (const format::TensorInfo& tensor : file.tensors()) {
        const auto tap = format::tap_of(tensor.name);
        if (!tap || tensor.shape.size() != 2 || *tap == format::kHeadTap) {
            continue;
        }
        const auto found =
            std::ranges::find_if(taps, [&](const TapPlan& planned) { return planned.tap == *tap; });
        if (found == taps.end()) {
            taps.push_back({.tap = *tap, .dim = static_cast<uint32_t>(tensor.cols())});
        } else if (found->dim != tensor.cols()) {
            throw Error(ErrorCode::bad_input,
                        fmt::format("{}: tensor {}: {} columns where another matrix of {} has {}",
                                    file.path().string(), tensor.name, tensor.cols(), *tap, found->dim));
        }
    }
    return taps;
}

TapPlan head_tap(const format::ModelFile& file) {
    const auto head = file.find(format::is_tied(file.tensors()) ? format::kEmbedding : format::kHead);
    if (!head || file.tensors()[*head].shape.size() != 2) {
        throw Error(ErrorCode::bad_input, fmt::format("{}: has no output head", file.path().string()));
    }
    return {.tap = std::string(format::kHeadTap), .dim = static_cast<uint32_t>(file.tensors()[*head].cols())};
}

uint64_t total_bytes(const std::vector<TapPlan>& taps) {
    uint64_t sum = 0;
    for (const TapPlan& tap : taps) {
        sum += tap.bytes;
    }
    return sum;
}

TapPlan sketched(TapPlan tap, uint32_t k) {
    tap.gram = false;
    tap.rank = stats::nystrom_rank(tap.dim, k);
    tap.bytes = stats::NystromAccumulator::bytes_of(tap.dim, tap.rank);
    return tap;
}

/// Sketches the widest taps that would become smaller by it; false where there are none.
bool sketch_widest(std::vector<TapPlan>& taps, uint32_t k) {
    uint32_t widest = 0;
    for (const TapPlan& tap : taps) {
        if (tap.gram && sketched(tap, k).bytes < tap.bytes) {
            widest = std::max(widest, tap.dim);
        }
    }
    for (TapPlan& tap : taps) {
        tap = tap.gram && tap.dim == widest ? sketched(tap, k) : tap;
    }
    return widest != 0;
}

std::string gigabytes(uint64_t bytes) {
    return fmt::format("{:.1f} GB", static_cast<double>(bytes) / 1e9);
}

}  // namespace

std::vector<TapPlan> plan_taps(const format::ModelFile& file, uint32_t k, bool full, uint64_t memory,
                               bool head) {
    if (const auto reason = codec::out_of_scope(format::KeyValues(file.key_values()), file.tensors())) {
        throw Error(ErrorCode::bad_input, fmt::format("{}: {}", file.path().string(), *reason));
    }
    std::vector<TapPlan> taps = list_taps(file);
    if (taps.empty()) {
        throw Error(ErrorCode::bad_input,
                    fmt::format("{}: no matrices of transformer blocks (blk.N.attn_q.weight and so on)",
                                file.path().string()));
    }
    if (head) {
        taps.push_back(head_tap(file));
    }
    for (TapPlan& tap : taps) {
        tap.bytes = stats::GramAccumulator::bytes_of(tap.dim);
    }
    const uint64_t all = total_bytes(taps);
    while (!full && total_bytes(taps) > memory && sketch_widest(taps, k)) {
    }
    if (total_bytes(taps) > memory) {
        throw Error(ErrorCode::usage,
                    fmt::format("{} do not fit the memory given, {}: --memory {}G would do",
                                full ? fmt::format("full covariances ({})", gigabytes(all))
                                     : fmt::format("sketches ({})", gigabytes(total_bytes(taps))),
                                gigabytes(memory), (total_bytes(taps) >> 30) + 1));
    }
    return taps;
}

TapCollector::TapCollector(std::vector<TapPlan> plan, uint32_t stride, int threads)
    : plan_(std::move(plan)),
      stride_(stride),
      threads_(threads),
      source_(plan_.size()),
      position_(plan_.size()),
      pending_(plan_.size()) {
    std::map<std::pair<uint32_t, uint32_t>, std::shared_ptr<const stats::Panels>> omegas;
    moments_.reserve(plan_.size());
    for (size_t i = 0; i < plan_.size(); ++i) {
        const TapPlan& tap = plan_[i];
        index_[tap.tap] = i;
        if (tap.gram) {
            moments_.emplace_back(stats::GramAccumulator(tap.dim));
            continue;
        }
        auto& omega = omegas[{tap.dim, tap.rank}];
        if (!omega) {
            omega = stats::gaussian_panels(tap.dim, tap.rank);
        }
        moments_.emplace_back(stats::NystromAccumulator(omega));
    }
}

void TapCollector::begin_chunk() {
    std::ranges::fill(position_, 0);
    pending_ = plan_.size();
}

bool TapCollector::wants(std::string_view weight) {
    if (tap_of_.contains(weight)) {
        return true;
    }
    const auto tap = format::tap_of(weight, weight == format::kEmbedding);  // in a product it is the head
    const auto at = tap ? index_.find(*tap) : index_.end();
    if (at == index_.end() || !source_[at->second].empty()) {
        return false;
    }
    source_[at->second] = weight;
    tap_of_[std::string(weight)] = at->second;
    return true;
}

void TapCollector::see(std::string_view weight, size_t rows, size_t cols, const float* data, size_t stride) {
    const size_t tap = tap_of_.find(weight)->second;
    within(plan_[tap].tap, [&] {
        if (cols != plan_[tap].dim) {
            throw Error(ErrorCode::bad_input,
                        fmt::format("an input of {} columns, not {}", cols, plan_[tap].dim));
        }
        const size_t skipped = (stride_ - position_[tap] % stride_) % stride_;
        if (skipped < rows) {
            panels_.pack(data + skipped * stride, (rows - skipped + stride_ - 1) / stride_, cols,
                         stride * stride_, threads_);
            std::visit([&](auto& moments) { moments.add(panels_, threads_); }, moments_[tap]);
        }
    });
    position_[tap] += rows;
    pending_ = pending_ == 0 ? plan_.size() - 1 : pending_ - 1;  // 0: the next part of a long chunk begins
}

uint64_t TapCollector::samples(size_t tap) const {
    const uint64_t count =
        std::visit([](const auto& moments) { return moments.samples(); }, moments_.at(tap));
    if (count == 0) {
        throw Error(ErrorCode::internal,
                    fmt::format("the engine never showed the inputs of {}", plan_[tap].tap));
    }
    return count;
}

format::Sketch TapCollector::sketch(size_t tap, uint32_t k) const {
    format::Sketch sketch{.tap = plan_[tap].tap, .samples = samples(tap)};
    const uint32_t pairs = std::min(k, plan_[tap].dim);
    const auto& moments = moments_[tap];
    const std::vector<double> diagonal =
        std::visit([](const auto& kept) { return kept.diagonal(); }, moments);
    stats::EigenPairs eigen;
    if (const auto* gram = std::get_if<stats::GramAccumulator>(&moments)) {
        eigen = stats::largest_eigenpairs(gram->mean(), plan_[tap].dim, pairs);
    } else {
        eigen = std::get<stats::NystromAccumulator>(moments).largest_eigenpairs(pairs);
    }
    sketch.diag.assign(diagonal.begin(), diagonal.end());
    sketch.eigval.assign(eigen.values.begin(), eigen.values.end());
    sketch.eigvec.assign(eigen.vectors.begin(), eigen.vectors.end());
    return sketch;
}

std::vector<float> TapCollector::packed_covariance(size_t tap) const {
    return std::get<stats::GramAccumulator>(moments_.at(tap)).packed_mean();
}

void TapCollector::save(const std::function<void(Bytes)>& write) const {
    for (const Accumulator& moments : moments_) {
        ByteWriter out;
        std::visit([&](const auto& kept) { kept.save(out); }, moments);
        write(out.bytes());
    }
}

void TapCollector::load(Bytes state) {
    ByteReader reader(state);
    for (size_t i = 0; i < moments_.size(); ++i) {
        within(plan_[i].tap, [&] { std::visit([&](auto& kept) { kept.load(reader); }, moments_[i]); });
    }
    if (reader.remaining() != 0) {
        throw Error(ErrorCode::bad_input, fmt::format("{} bytes are left over", reader.remaining()));
    }
}

}  // namespace kaiju::eval
