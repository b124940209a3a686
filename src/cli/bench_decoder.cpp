// kaiju bench decoder: nanoseconds a point of every nearest-point search on every instruction set.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/parallel.h"
#include "cli/bench_commands.h"
#include "lattice/decoders.h"
#include "lattice/gate.h"

namespace kaiju::cli {

namespace {

using lattice::kDimension;
using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr size_t kChecked = 512;
constexpr size_t kBatch = 1024;  ///< points per timed call: about a hundred microseconds of the fast decoder

struct Options {
    double seconds = 0.5;
    uint64_t seed = 1;
    int threads = 1;
};

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Clock rate of the core in GHz: a chain of additions takes a cycle each. Best of many, like the timings.
double core_ghz() {
    double best = 1e9;
    uint64_t x = 0;
    for (int repeat = 0; repeat < 300; ++repeat) {
        const auto start = Clock::now();
        for (int i = 0; i < 1000; ++i) {
#pragma GCC unroll 32
            for (int k = 0; k < 32; ++k) {
                x += 1;
                asm volatile("" : "+r"(x));
            }
        }
        best = std::min(best, seconds_since(start));
    }
    return 32000 / best * 1e-9;
}

struct Timing {
    double best_ns;
    double median_ns;
};

Timing time_decoder(const lattice::Decoder& decoder, std::span<const float> y, int threads, double seconds) {
    const size_t points = y.size() / kDimension;
    std::vector<lattice::Nearest> out(points);
    std::vector<double> times;
    const auto begin = Clock::now();
    do {
        const auto start = Clock::now();
        parallel_for(points, kBatch, threads, [&](size_t first, size_t last) {
            decoder.nearest(y.subspan(first * kDimension, (last - first) * kDimension),
                            std::span(out).subspan(first, last - first));
        });
        times.push_back(seconds_since(start) * 1e9 / static_cast<double>(points));
    } while (seconds_since(begin) < seconds || times.size() < 3);
    std::sort(times.begin(), times.end());
    return {times.front(), times[times.size() / 2]};
}

/// Throws internal unless the decoder's answers to the first points are those of the exhaustive one.
void check_answers(const lattice::Decoder& decoder, std::span<const float> y) {
    std::vector<lattice::Nearest> found(kChecked);
    std::vector<lattice::Nearest> expected(kChecked);
    decoder.nearest(y.first(kChecked * kDimension), found);
    lattice::make_exhaustive_decoder()->nearest(y.first(kChecked * kDimension), expected);
    for (size_t p = 0; p < kChecked; ++p) {
        if (found[p].x != expected[p].x || found[p].d2 != expected[p].d2) {
            throw Error(ErrorCode::internal, fmt::format("decoder {} on {} gives a wrong answer to point {}",
                                                         decoder.name(), decoder.simd(), p));
        }
    }
}

int run_bench(Session& session, const Options& options) {
    std::vector<std::unique_ptr<lattice::Decoder>> decoders;
    for (const lattice::Simd simd : lattice::available_simd()) {
        decoders.push_back(lattice::make_fast_decoder(simd));
    }
    std::reverse(decoders.begin(), decoders.end());
    decoders.push_back(lattice::make_pruned_decoder());
    decoders.push_back(lattice::make_exhaustive_decoder());
    const double ghz = core_ghz();
    json results = json::array();
    std::string table =
        fmt::format("{:<12} {:<8} {:<10} {:>7} {:>12} {:>12} {:>10} {:>12}\n", "decoder", "simd", "points",
                    "threads", "best ns", "median ns", "cycles", "operations");
    for (const auto& [kind, kind_name] : {std::pair(lattice::PointKind::uniform, "uniform"),
                                          std::pair(lattice::PointKind::gaussian, "gaussian")}) {
        std::vector<float> y(2 * static_cast<size_t>(options.threads) * kBatch * kDimension);
        lattice::make_points(kind, options.seed, 0, y);
        const lattice::FastWork work = lattice::count_fast_work(y);
        std::vector<int> thread_counts = {1};
        if (options.threads > 1) {
            thread_counts.push_back(options.threads);
        }
        for (const auto& decoder : decoders) {
            check_answers(*decoder, y);
            const bool fast = decoder->name() == "fast";
            for (const int threads : thread_counts) {
                if (threads > 1 && (!fast || decoder->simd() == "scalar")) {
                    continue;
                }
                session.monitor().check_cancelled();
                // Short calls, so that the best of many is free of other programs: one batch that stays in
                // the cache, or two for every thread; few points where a point takes microseconds.
                const bool vectors = fast && decoder->simd() != "scalar";
                const size_t points = threads > 1 ? y.size() / kDimension : vectors ? kBatch : 64;
                const Timing timing = time_decoder(
                    *decoder, std::span<const float>(y).first(points * kDimension), threads, options.seconds);
                json row = {{"decoder", decoder->name()},
                            {"simd", decoder->simd()},
                            {"points", kind_name},
                            {"threads", threads},
                            {"ns_per_point", timing.best_ns},
                            {"median_ns_per_point", timing.median_ns},
                            {"cycles_per_point", timing.best_ns * ghz * threads}};
                if (fast) {
                    row["classes_per_point"] = work.classes_per_point;
                    row["operations_per_point"] = work.operations_per_point;
                }
                table += fmt::format("{:<12} {:<8} {:<10} {:>7} {:>12.1f} {:>12.1f} {:>10.0f} {:>12}\n",
                                     decoder->name(), decoder->simd(), kind_name, threads, timing.best_ns,
                                     timing.median_ns, timing.best_ns * ghz * threads,
                                     fast ? fmt::format("{:.0f}", work.operations_per_point) : "-");
                results.push_back(std::move(row));
            }
        }
    }
    if (session.json()) {
        session.print(json{{"results", results}, {"core_ghz", ghz}});
    } else {
        session.print(
            table +
            fmt::format("core clock {:.2f} GHz; every answer was checked against the exhaustive decoder\n",
                        ghz));
    }
    return 0;
}

}  // namespace

void add_bench_decoder(CLI::App& group, Session& session) {
    auto options = std::make_shared<Options>();
    CLI::App* decoder =
        add_command(group, session, "decoder",
                    "Nanoseconds a point of the nearest-point searches in the Leech lattice, with the point "
                    "returned: every decoder "
                    "on every instruction set of this processor, uniform points and Gaussian blocks at an "
                    "encoder's step. The "
                    "first figure is the best of many runs.",
                    "kaiju bench decoder --json", [options](Session& s) { return run_bench(s, *options); });
    decoder->add_option("--seconds", options->seconds, "How long each row is measured")
        ->check(CLI::Range(0.001, 600.0))
        ->capture_default_str();
    decoder->add_option("--seed", options->seed, "Seed of the points")->capture_default_str();
    add_threads(*decoder, options->threads);
    add_json(*decoder, session);
}

}  // namespace kaiju::cli
