// kaiju bench decoder: nanoseconds a point of every nearest-point search on every instruction set.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/parallel.h"
#include "cli/bench_commands.h"
#include "cli/lattice_commands.h"
#include "lattice/codebook_search.h"
#include "lattice/decoders.h"
#include "lattice/e8.h"
#include "lattice/gate.h"

namespace kaiju::cli {

namespace {

using lattice::CodebookSearch;
using lattice::CodebookWord;
using lattice::kDimension;
using lattice::kE8Dimension;
using lattice::Nearest;
using lattice::NearestE8;
using lattice::Parity;
using lattice::PointKind;
using nlohmann::json;
using Clock = std::chrono::steady_clock;
using Points = std::span<const float>;

constexpr size_t kChecked = 512;
constexpr size_t kBatch = 1024;  ///< points per timed call: about a hundred microseconds of the fast decoder
constexpr size_t kFew = 64;      ///< where a point takes microseconds
constexpr size_t kCandidates = 8;

struct Options {
    double seconds = 0.5;
    uint64_t seed = 1;
    int threads = 1;
    std::string model;
};

/// A search to measure: `run` answers points [first, last) of the points it is given into its own room,
/// `check` throws internal where the first answers are wrong.
struct Search {
    std::string target;  ///< "lattice", "code book", "code book, any parity", ...
    std::string name;
    std::string simd;
    size_t batch;  ///< points of one timed call
    bool batched;  ///< works in vectors: also timed on all threads
    std::function<void(Points y, size_t first, size_t last)> run;
    std::function<void(Points y)> check;
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

/// Fills in `run` and `check` of a search that gives `each` answers a point. `find` and `reference` have the
/// same form.
template <typename Answer, typename Find, typename Reference>
Search made(Search search, size_t room, size_t each, Find find, Reference reference) {
    const auto answers = std::make_shared<std::vector<Answer>>(room * each);
    search.run = [answers, each, find](Points y, size_t first, size_t last) {
        find(y.subspan(first * kDimension, (last - first) * kDimension),
             std::span(*answers).subspan(first * each, (last - first) * each));
    };
    search.check = [what = search.target + ": " + search.name + " on " + search.simd, each, find,
                    reference](Points y) {
        const size_t points = std::min(kChecked, y.size() / kDimension);
        std::vector<Answer> found(points * each);
        std::vector<Answer> expected(points * each);
        find(y.first(points * kDimension), std::span(found));
        reference(y.first(points * kDimension), std::span(expected));
        for (size_t i = 0; i < found.size(); ++i) {
            if (found[i] != expected[i]) {
                throw Error(ErrorCode::internal,
                            fmt::format("{} gives a wrong answer to point {}", what, i / each));
            }
        }
    };
    return search;
}

Search lattice_search(std::unique_ptr<lattice::Decoder> owned, size_t room) {
    const std::shared_ptr<lattice::Decoder> decoder = std::move(owned);
    const bool batched = decoder->name() == "fast" && decoder->simd() != "scalar";
    return made<Nearest>(
        {.target = "lattice",
         .name = std::string(decoder->name()),
         .simd = std::string(decoder->simd()),
         .batch = batched ? kBatch : kFew,
         .batched = batched,
         .run = {},
         .check = {}},
        room, 1, [decoder](Points y, std::span<Nearest> out) { decoder->nearest(y, out); },
        [](Points y, std::span<Nearest> out) { lattice::make_exhaustive_decoder()->nearest(y, out); });
}

Search word_search(Parity parity, const std::shared_ptr<CodebookSearch>& search, const std::string& name,
                   size_t room) {
    const bool batched = name == "fast" && search->simd() != lattice::Simd::scalar;
    return made<CodebookWord>(
        {.target = parity == Parity::kept ? "code book" : "code book, any parity",
         .name = name,
         .simd = std::string(name == "fast" ? lattice::simd_name(search->simd()) : "scalar"),
         .batch = batched ? kBatch : kFew,
         .batched = batched,
         .run = {},
         .check = {}},
        room, 1, [search](Points y, std::span<CodebookWord> out) { search->nearest(y, out); },
        [parity](Points y, std::span<CodebookWord> out) {
            CodebookSearch(parity, lattice::CodebookMethod::exhaustive).nearest(y, out);
        });
}

/// The best candidates: the first must be the nearest code word.
Search candidate_search(size_t room) {
    const auto search = std::make_shared<CodebookSearch>(Parity::kept, lattice::CodebookMethod::pruned);
    return made<CodebookWord>(
        {.target = fmt::format("code book, best {}", kCandidates),
         .name = "pruned",
         .simd = "scalar",
         .batch = kFew,
         .batched = false,
         .run = {},
         .check = {}},
        room, kCandidates,
        [search](Points y, std::span<CodebookWord> out) { search->candidates(y, kCandidates, out); },
        [search](Points y, std::span<CodebookWord> out) {
            search->candidates(y, kCandidates, out);
            std::vector<CodebookWord> nearest(out.size() / kCandidates);
            CodebookSearch(Parity::kept, lattice::CodebookMethod::exhaustive).nearest(y, nearest);
            for (size_t p = 0; p < nearest.size(); ++p) {
                out[p * kCandidates] = nearest[p];
            }
        });
}

/// E8, for comparison: an answer must be a point of it, as far as it says, and no farther than the covering
/// radius.
Search e8_search(size_t room) {
    const auto answers = std::make_shared<std::vector<NearestE8>>(room);
    const auto find = [answers](Points y, size_t first, size_t last) {
        lattice::nearest_e8(y.subspan(first * kE8Dimension, (last - first) * kE8Dimension),
                            std::span(*answers).subspan(first, last - first));
    };
    return {.target = "E8",
            .name = "two roundings",
            .simd = "scalar",
            .batch = kBatch,
            .batched = false,
            .run = find,
            .check = [answers, find](Points y) {
                find(y, 0, kChecked);
                for (size_t p = 0; p < kChecked; ++p) {
                    const NearestE8& found = (*answers)[p];
                    int32_t sum = 0;
                    double d2 = 0;
                    bool right = true;
                    for (size_t i = 0; i < kE8Dimension; ++i) {
                        sum += found.x[i];
                        right &= (found.x[i] - found.x[0]) % 2 == 0;
                        const double gap = found.x[i] - static_cast<double>(y[p * kE8Dimension + i]);
                        d2 += gap * gap;
                    }
                    if (!right || sum % 4 != 0 || std::fabs(d2 - found.d2) > 1e-3 || d2 > 4 + 1e-3) {
                        throw Error(ErrorCode::internal,
                                    fmt::format("E8: the answer to point {} is not a nearest point", p));
                    }
                }
            }};
}

/// Everything that there is to measure, the fastest first.
std::vector<Search> all_searches(size_t room) {
    const auto available = lattice::available_simd();
    std::vector<lattice::Simd> sets(available.begin(), available.end());
    std::reverse(sets.begin(), sets.end());
    std::vector<Search> searches;
    searches.reserve(3 * sets.size() + 6);
    for (const lattice::Simd simd : sets) {
        searches.push_back(lattice_search(lattice::make_fast_decoder(simd), room));
    }
    searches.push_back(lattice_search(lattice::make_pruned_decoder(), room));
    searches.push_back(lattice_search(lattice::make_exhaustive_decoder(), room));
    for (const Parity parity : {Parity::kept, Parity::free}) {
        for (const lattice::Simd simd : sets) {
            searches.push_back(
                word_search(parity, std::make_shared<CodebookSearch>(parity, simd), "fast", room));
        }
        searches.push_back(
            word_search(parity, std::make_shared<CodebookSearch>(parity, lattice::CodebookMethod::pruned),
                        "pruned", room));
    }
    searches.push_back(candidate_search(room));
    searches.push_back(e8_search(room));
    return searches;
}

struct Timing {
    double best_ns;
    double median_ns;
};

/// Short calls, so that the best of many is free of other programs: one batch that stays in the cache, or 16
/// for every thread.
Timing time_search(const Search& search, Points y, size_t points, int threads, double seconds) {
    std::vector<double> times;
    const auto begin = Clock::now();
    do {
        const auto start = Clock::now();
        if (threads == 1) {
            search.run(y, 0, points);
        } else {
            parallel_for(points, kBatch, threads,
                         [&](size_t first, size_t last) { search.run(y, first, last); });
        }
        times.push_back(seconds_since(start) * 1e9 / static_cast<double>(points));
    } while (seconds_since(begin) < seconds || times.size() < 3);
    std::sort(times.begin(), times.end());
    return {times.front(), times[times.size() / 2]};
}

struct PointSet {
    std::string name;
    std::vector<float> y;
    lattice::FastWork work;
};

std::vector<PointSet> point_sets(const Options& options, size_t room) {
    std::vector<PointSet> sets;
    for (const auto& [kind, name] :
         {std::pair(PointKind::uniform, "uniform"), std::pair(PointKind::gaussian, "gaussian")}) {
        PointSet set{.name = name, .y = std::vector<float>(room * kDimension), .work = {}};
        lattice::make_points(kind, options.seed, 0, set.y);
        sets.push_back(std::move(set));
    }
    if (!options.model.empty()) {
        std::vector<float> blocks = model_blocks(options.model, room);
        if (blocks.size() < room * kDimension) {
            throw Error(ErrorCode::bad_input, fmt::format("{}: {} blocks of 24 weights, {} are needed",
                                                          options.model, blocks.size() / kDimension, room));
        }
        blocks.resize(room * kDimension);
        lattice::scale_blocks(blocks);
        sets.push_back({.name = "real", .y = std::move(blocks), .work = {}});
    }
    for (PointSet& set : sets) {
        set.work = lattice::count_fast_work(set.y);
    }
    return sets;
}

int run_bench(Session& session, const Options& options) {
    const size_t room = 16 * static_cast<size_t>(options.threads) * kBatch;
    const std::vector<PointSet> sets = point_sets(options, room);
    const std::vector<Search> searches = all_searches(room);
    const double ghz = core_ghz();
    json results = json::array();
    std::string table =
        fmt::format("{:<22} {:<13} {:<7} {:<9} {:>7} {:>9} {:>9} {:>8} {:>10}\n", "target", "search", "simd",
                    "points", "threads", "best ns", "median ns", "cycles", "operations");
    for (const PointSet& set : sets) {
        for (const Search& search : searches) {
            // A uniform point lies anywhere, a code book about the origin.
            if (set.name == "uniform" && search.target.starts_with("code book")) {
                continue;
            }
            search.check(set.y);
            const bool scaled = search.batched && options.threads > 1;
            for (const int threads : scaled ? std::vector{1, options.threads} : std::vector{1}) {
                session.monitor().check_cancelled();
                const Timing timing =
                    time_search(search, set.y, threads > 1 ? room : search.batch, threads, options.seconds);
                const double cycles = timing.best_ns * ghz * threads;
                json row = {{"target", search.target},
                            {"decoder", search.name},
                            {"simd", search.simd},
                            {"points", set.name},
                            {"threads", threads},
                            {"ns_per_point", timing.best_ns},
                            {"median_ns_per_point", timing.median_ns},
                            {"cycles_per_point", cycles}};
                const bool counted = search.target == "lattice" && search.name == "fast";
                if (counted) {
                    row["classes_per_point"] = set.work.classes_per_point;
                    row["operations_per_point"] = set.work.operations_per_point;
                }
                table += fmt::format("{:<22} {:<13} {:<7} {:<9} {:>7} {:>9.1f} {:>9.1f} {:>8.0f} {:>10}\n",
                                     search.target, search.name, search.simd, set.name, threads,
                                     timing.best_ns, timing.median_ns, cycles,
                                     counted ? fmt::format("{:.0f}", set.work.operations_per_point) : "-");
                results.push_back(std::move(row));
            }
        }
    }
    if (session.json()) {
        session.print(json{{"results", results}, {"core_ghz", ghz}});
    } else {
        session.print(table +
                      fmt::format("core clock {:.2f} GHz; every answer was checked against another search "
                                  "before it was timed\n",
                                  ghz));
    }
    return 0;
}

}  // namespace

void add_bench_decoder(CLI::App& group, Session& session) {
    auto options = std::make_shared<Options>();
    CLI::App* decoder = add_command(
        group, session, "decoder",
        "Nanoseconds a point of the nearest-point searches, with the point returned: Leech lattice and "
        "code book, every search on every instruction set of this processor, uniform points, and "
        "Gaussian and real blocks at an encoder's step. The first figure is the best of many runs.",
        "kaiju bench decoder --json", [options](Session& s) { return run_bench(s, *options); });
    decoder->add_option("--seconds", options->seconds, "How long each row is measured")
        ->check(between(0.001, 600.0))
        ->capture_default_str();
    decoder->add_option("--model", options->model,
                        "Measure on blocks of this model's matrices too (.gguf or .knot)");
    decoder->add_option("--seed", options->seed, "Seed of the points")->capture_default_str();
    add_threads(*decoder, options->threads);
    add_json(*decoder, session);
}

}  // namespace kaiju::cli
