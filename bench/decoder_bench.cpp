// The nearest-point searches, with Google Benchmark. Answers are checked before anything is timed.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "lattice/decoders.h"
#include "lattice/gate.h"

namespace {

using namespace kaiju::lattice;

void decode(benchmark::State& state, const Decoder& decoder, PointKind kind, size_t points) {
    std::vector<float> y(points * kDimension);
    make_points(kind, 1, 0, y);
    std::vector<Nearest> found(points);
    std::vector<Nearest> expected(points);
    decoder.nearest(std::span<const float>(y), found);
    make_exhaustive_decoder()->nearest(std::span<const float>(y), expected);
    for (size_t p = 0; p < points; ++p) {
        if (found[p] != expected[p]) {
            state.SkipWithError("wrong answer");
            return;
        }
    }
    for (auto _ : state) {
        decoder.nearest(std::span<const float>(y), found);
        benchmark::DoNotOptimize(found.data());
        benchmark::ClobberMemory();
    }
    state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * points));
    state.counters["ns/point"] =
        benchmark::Counter(static_cast<double>(state.iterations() * points) * 1e-9,
                           benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void add(const std::string& name, const std::shared_ptr<Decoder>& decoder, size_t points) {
    for (const auto& [kind, kind_name] :
         {std::pair(PointKind::uniform, "uniform"), std::pair(PointKind::gaussian, "gaussian")}) {
        benchmark::RegisterBenchmark((name + "/" + kind_name).c_str(),
                                     [decoder, points, kind = kind](benchmark::State& state) {
                                         decode(state, *decoder, kind, points);
                                     });
    }
}

const bool registered = [] {
    for (const Simd simd : available_simd()) {
        add("fast/" + std::string(simd_name(simd)), make_fast_decoder(simd), 2048);
        add("fast_one_by_one/" + std::string(simd_name(simd)), make_fast_decoder(simd), 1);
    }
    add("pruned", make_pruned_decoder(), 512);
    add("exhaustive", make_exhaustive_decoder(), 128);
    return true;
}();

}  // namespace
