#include "lattice/gate.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <mutex>

#include "base/error.h"
#include "base/parallel.h"
#include "lattice/codebook_search.h"
#include "lattice/decoders.h"
#include "lattice/golay.h"
#include "lattice/leech.h"

namespace kaiju::lattice {

namespace {

constexpr size_t kChunk = 2048;
constexpr double kTolerance = 1e-3;

/// SplitMix64 (Steele, Lea, Flood 2014): every point has a stream of its own, so that order and threads do
/// not matter.
class Random {
  public:
    Random(uint64_t seed, uint64_t kind, uint64_t point)
        : state_(mix(seed * 0x9E3779B97F4A7C15 + kind) ^ mix(point + 0x632BE59BD9B4E019)) {}

    uint64_t bits() { return mix(state_ += 0x9E3779B97F4A7C15); }
    double unit() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
    int64_t between(int64_t low, int64_t high) {
        return low + static_cast<int64_t>(bits() % static_cast<uint64_t>(high - low + 1));
    }

  private:
    static uint64_t mix(uint64_t z) {
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
        z = (z ^ z >> 27) * 0x94D049BB133111EB;
        return z ^ z >> 31;
    }
    uint64_t state_;
};

std::array<int32_t, kDimension> random_lattice_point(Random& random) {
    std::array<int32_t, kDimension> x;
    const auto m = static_cast<int32_t>(random.between(0, 1));
    const uint32_t word = kGolay[static_cast<size_t>(random.between(0, kGolayWords - 1))];
    int32_t sum = m;
    for (size_t i = 0; i < kDimension; ++i) {
        auto q = static_cast<int32_t>(random.between(-2, 2));
        sum += q;
        if (i + 1 == kDimension && sum % 2 != 0) {
            ++q;
        }
        x[i] = m + 2 * static_cast<int32_t>(word >> i & 1) + 4 * q;
    }
    return x;
}

/// Points where ties and edges are: kinds take turns.
void structured_point(Random& random, size_t number, std::span<float> y) {
    const auto fill = [&](auto&& value) {
        for (float& v : y) {
            v = static_cast<float>(value());
        }
    };
    switch (number % 8) {
        case 0:  // half-grid values
            fill([&] { return static_cast<double>(random.between(-16, 16)) / 2; });
            return;
        case 1:  // zeros but for a few
            fill([] { return 0.0; });
            for (int k = 0; k < 4; ++k) {
                y[static_cast<size_t>(random.between(0, 23))] = static_cast<float>(random.between(-8, 8)) / 4;
            }
            return;
        case 2: {  // deep holes: a lattice point and 4 in one coordinate, squared radius 16, 48 nearest
                   // points
            const auto x = random_lattice_point(random);
            std::copy(x.begin(), x.end(), y.begin());
            y[static_cast<size_t>(random.between(0, 23))] += 4;
            return;
        }
        case 3: {  // midway between two lattice points
            const auto a = random_lattice_point(random);
            const auto b = random_lattice_point(random);
            for (size_t i = 0; i < kDimension; ++i) {
                y[i] = static_cast<float>(a[i] + b[i]) / 2;
            }
            return;
        }
        case 4:  // integers
            fill([&] { return static_cast<double>(random.between(-4, 4)); });
            return;
        case 5:  // huge
            fill([&] { return static_cast<double>(random.between(-(1 << 22), 1 << 22)) / 4; });
            return;
        case 6:  // a grid step, and half of one, beside half-grid values
            fill([&] {
                return static_cast<double>(random.between(-8, 8)) / 2 +
                       static_cast<double>(random.between(-3, 3)) * 0x1p-17;
            });
            return;
        default: {  // lattice points
            const auto x = random_lattice_point(random);
            std::copy(x.begin(), x.end(), y.begin());
        }
    }
}

/// Compares one chunk of points with the references.
GateSet compare(const Decoder& decoder, const Decoder& reference, std::span<const double> y) {
    GateSet set;
    set.points = y.size() / kDimension;
    std::vector<Nearest> found(set.points);
    std::vector<Nearest> expected(set.points);
    decoder.nearest(y, found);
    reference.nearest(y, expected);
    for (size_t p = 0; p < set.points; ++p) {
        const Nearest& a = found[p];
        set.different += a == expected[p] ? 0 : 1;
        set.outside += coset_of(a.x) == Coset{a.m, a.word} ? 0 : 1;
        const double gap =
            std::fabs(a.d2 - nearest_distance_f64(y.subspan(p * kDimension).first<kDimension>()));
        set.far += gap <= kTolerance ? 0 : 1;
        set.largest_gap = std::max(set.largest_gap, gap);
    }
    return set;
}

/// The batched search of the code book against the branch and bound, and whether its answers are legal.
GateSet compare_code_words(Parity parity, std::span<const float> y) {
    const CodebookSearch search(parity);
    GateSet set;
    set.points = y.size() / kDimension;
    std::vector<CodebookWord> found(set.points);
    std::vector<CodebookWord> expected(set.points);
    search.nearest(y, found);
    search.candidates(y, 1, expected);
    for (size_t p = 0; p < set.points; ++p) {
        const CodebookWord& a = found[p];
        set.different += a == expected[p] ? 0 : 1;
        int sum = a.m;
        bool legal = a.m <= 1 && a.word < kGolayWords;
        for (const int8_t z : a.z) {
            legal &= z >= -1 && z <= 1;
            sum += z;
        }
        set.outside += legal && (parity == Parity::free || sum % 2 == 0) ? 0 : 1;
    }
    return set;
}

void add(GateSet& sum, const GateSet& part) {
    sum.points += part.points;
    sum.different += part.different;
    sum.far += part.far;
    sum.outside += part.outside;
    sum.largest_gap = std::max(sum.largest_gap, part.largest_gap);
}

bool refuses_non_finite(const Decoder& decoder) {
    const double kInfinity = std::numeric_limits<double>::infinity();
    for (const double bad : {std::numeric_limits<double>::quiet_NaN(), kInfinity, -kInfinity, 0x1.00001p20}) {
        std::array<double, 2 * kDimension> y{};
        y[kDimension + 7] = bad;
        std::array<float, 2 * kDimension> narrow;
        std::transform(y.begin(), y.end(), narrow.begin(), [](double v) { return static_cast<float>(v); });
        std::array<Nearest, 2> out;
        for (const bool wide : {true, false}) {
            try {
                wide ? decoder.nearest(y, out) : decoder.nearest(std::span<const float>(narrow), out);
                return false;
            } catch (const Error& error) {
                if (error.code() != ErrorCode::bad_input) {
                    return false;
                }
            }
        }
    }
    return true;
}

}  // namespace

void make_points(PointKind kind, uint64_t seed, size_t first, std::span<float> out) {
    for (size_t p = 0; p < out.size() / kDimension; ++p) {
        const auto y = out.subspan(p * kDimension, kDimension);
        Random random(seed, static_cast<uint64_t>(kind), first + p);
        switch (kind) {
            case PointKind::uniform:  // finer than the grid, and exact in floats
                for (float& v : y) {
                    v = static_cast<float>(random.bits() >> 40) * 0x1p-21F;
                }
                break;
            case PointKind::structured:
                structured_point(random, first + p, y);
                break;
            case PointKind::gaussian:  // Box and Muller
                for (size_t i = 0; i < kDimension; i += 2) {
                    const double radius = std::sqrt(-2 * std::log(1 - random.unit()));
                    const double angle = 2 * 3.14159265358979323846 * random.unit();
                    y[i] = static_cast<float>(radius * std::cos(angle));
                    y[i + 1] = static_cast<float>(radius * std::sin(angle));
                }
                scale_blocks(y);
                break;
            case PointKind::laplacian:
                for (float& v : y) {
                    const double u = random.unit() - 0.5;
                    v = static_cast<float>((u < 0 ? 1 : -1) * std::log(1 - 2 * std::fabs(u)));
                }
                scale_blocks(y);
        }
    }
}

void scale_blocks(std::span<float> blocks) {
    for (size_t at = 0; at + kDimension <= blocks.size(); at += kDimension) {
        const auto block = blocks.subspan(at, kDimension);
        double squares = 0;
        for (const float v : block) {
            squares += double{v} * v;
        }
        if (squares > 0 && std::isfinite(squares)) {
            const double factor = kBlockRmsPerStep / std::sqrt(squares / kDimension);
            for (float& v : block) {
                v = static_cast<float>(v * factor);
            }
        }
    }
}

double nearest_distance_f64(std::span<const double, kDimension> y) {
    struct Octet {
        std::array<double, 256> cost;
        std::array<double, 256> repair;
        std::array<uint8_t, 256> odd;
    };
    std::array<Octet, 3> octets;
    double best = std::numeric_limits<double>::infinity();
    for (uint32_t m = 0; m < 2; ++m) {
        for (size_t o = 0; o < octets.size(); ++o) {
            Octet& octet = octets[o];
            octet.cost[0] = 0;
            octet.repair[0] = std::numeric_limits<double>::infinity();
            octet.odd[0] = 0;
            for (size_t i = 0; i < 8; ++i) {
                std::array<double, 2> cost;
                std::array<double, 2> repair;
                std::array<uint8_t, 2> odd;
                for (uint32_t c = 0; c < 2; ++c) {
                    const double t = (y[8 * o + i] - m - 2 * c) / 4;
                    const double q = std::floor(t + 0.5);
                    const double r = 4 * std::fabs(t - q);
                    cost[c] = r * r;
                    repair[c] = 16 - 8 * r;
                    odd[c] = static_cast<uint8_t>(static_cast<int64_t>(q) & 1);
                }
                const size_t bit = size_t{1} << i;
                for (size_t p = 0; p < bit; ++p) {
                    octet.cost[p | bit] = octet.cost[p] + cost[1];
                    octet.repair[p | bit] = std::min(octet.repair[p], repair[1]);
                    octet.odd[p | bit] = octet.odd[p] ^ odd[1];
                    octet.cost[p] += cost[0];
                    octet.repair[p] = std::min(octet.repair[p], repair[0]);
                    octet.odd[p] ^= odd[0];
                }
            }
        }
        for (const uint32_t word : kGolay) {
            const size_t a = word & 0xFF;
            const size_t b = word >> 8 & 0xFF;
            const size_t c = word >> 16;
            double d2 = octets[0].cost[a] + octets[1].cost[b] + octets[2].cost[c];
            if (d2 < best && (octets[0].odd[a] ^ octets[1].odd[b] ^ octets[2].odd[c]) != m) {
                d2 += std::min({octets[0].repair[a], octets[1].repair[b], octets[2].repair[c]});
            }
            best = std::min(best, d2);
        }
    }
    return best;
}

bool GateReport::moment_passes() const {
    return moment_points > 1 && std::fabs(second_moment - kSecondMoment) <= 4 * standard_error;
}

bool GateReport::pass() const {
    return std::all_of(sets.begin(), sets.end(), [](const GateSet& set) { return set.pass(); }) &&
           (moment_points == 0 || moment_passes()) && non_finite_refused;
}

GateReport run_gate(const Decoder& decoder, const GateOptions& options, std::span<const float> weights,
                    std::span<const KnownPoint> known, Monitor& monitor) {
    if ((options.uniform | options.structured | options.blocks | options.code_words | options.moment |
         known.size()) == 0) {
        throw Error(ErrorCode::usage, "all counts are 0: a gate that tests nothing proves nothing");
    }
    if (!weights.empty() && options.blocks == 0) {
        throw Error(ErrorCode::usage, "blocks were given, and --blocks 0 tests none of them");
    }
    if (options.moment != 0 && options.moment < kFewestForMoment) {
        throw Error(ErrorCode::usage,
                    fmt::format("a second moment of {} points says nothing: take {} or more, or 0 "
                                "for no such test",
                                options.moment, kFewestForMoment));
    }
    const auto reference = make_exhaustive_decoder();
    GateReport report;

    // Compares `count` points that `fill` makes, chunk by chunk.
    using Compare = std::function<GateSet(std::span<const double> y)>;
    const Compare with_references = [&](std::span<const double> y) {
        return compare(decoder, *reference, y);
    };
    const auto check = [&](const std::string& name, size_t count,
                           const std::function<void(size_t first, std::span<double> y)>& fill,
                           const Compare& how) {
        if (count == 0) {  // what was not tested is not listed as passed
            return;
        }
        GateSet set;
        set.name = name;
        std::mutex mutex;
        monitor.begin(name, count, "points");
        parallel_for(count, kChunk, options.threads, [&](size_t begin, size_t end) {
            monitor.check_cancelled();
            std::vector<double> y((end - begin) * kDimension);
            fill(begin, y);
            const GateSet part = how(y);
            const std::lock_guard lock(mutex);
            add(set, part);
            monitor.advance(end - begin);
        });
        monitor.end();
        report.sets.push_back(std::move(set));
    };
    const auto made = [&](PointKind kind) {
        return [&options, kind](size_t first, std::span<double> y) {
            std::vector<float> values(y.size());
            make_points(kind, options.seed, first, values);
            std::copy(values.begin(), values.end(), y.begin());
        };
    };
    check("uniform", options.uniform, made(PointKind::uniform), with_references);
    check("structured", options.structured, made(PointKind::structured), with_references);
    check("gaussian blocks", options.blocks, made(PointKind::gaussian), with_references);
    check("laplacian blocks", options.blocks, made(PointKind::laplacian), with_references);
    // Real blocks: spread over all that were given; all of them where there are fewer.
    const size_t given = weights.size() / kDimension;
    const size_t real = std::min(given, options.blocks);
    const auto real_blocks = [&](size_t first, std::span<double> y) {
        for (size_t p = 0; p < y.size() / kDimension; ++p) {
            const size_t block = (first + p) * given / real;
            std::array<float, kDimension> values;
            std::copy_n(weights.begin() + static_cast<ptrdiff_t>(block * kDimension), kDimension,
                        values.begin());
            scale_blocks(values);
            std::copy(values.begin(), values.end(), y.begin() + static_cast<ptrdiff_t>(p * kDimension));
        }
    };
    if (real != 0) {
        check("real blocks", real, real_blocks, with_references);
    }
    for (const Parity parity : {Parity::kept, Parity::free}) {
        const Compare how = [parity](std::span<const double> y) {
            return compare_code_words(parity, std::vector<float>(y.begin(), y.end()));
        };
        const std::string name = parity == Parity::kept ? "code words, kept" : "code words, free";
        check(name, options.code_words, made(PointKind::gaussian), how);
        if (real != 0) {
            check(name + ", real", std::min(real, options.code_words), real_blocks, how);
        }
    }
    if (!known.empty()) {
        check(
            "known points", known.size(),
            [&](size_t first, std::span<double> y) {
                for (size_t p = 0; p < y.size() / kDimension; ++p) {
                    std::copy_n(known[first + p].y.begin(), kDimension,
                                y.begin() + static_cast<ptrdiff_t>(p * kDimension));
                }
            },
            with_references);
        GateSet& set = report.sets.back();
        for (const KnownPoint& point : known) {
            Nearest nearest;
            decoder.nearest(point.y, std::span(&nearest, 1));
            const double gap = std::fabs(nearest.d2 - point.d2);
            set.far += gap <= kTolerance ? 0 : 1;
            set.largest_gap = std::max(set.largest_gap, gap);
        }
    }

    // The second moment: sums of d2 and its square per chunk, added in the order of the chunks.
    const size_t chunks = (options.moment + kChunk - 1) / kChunk;
    std::vector<std::array<double, 2>> sums(chunks);
    monitor.begin("second moment", options.moment, "points");
    parallel_for(chunks, 1, options.threads, [&](size_t begin, size_t end) {
        std::vector<float> y(kChunk * kDimension);
        std::vector<Nearest> found(kChunk);
        for (size_t chunk = begin; chunk < end; ++chunk) {
            monitor.check_cancelled();
            const size_t first = chunk * kChunk;
            const size_t points = std::min(kChunk, options.moment - first);
            const auto values = std::span(y).first(points * kDimension);
            make_points(PointKind::uniform, options.seed + 1, first, values);
            decoder.nearest(std::span<const float>(values), std::span(found).first(points));
            for (size_t p = 0; p < points; ++p) {
                const double g = found[p].d2 / (kDimension * 8.0);  // covolume^(2/24) = 8
                sums[chunk][0] += g;
                sums[chunk][1] += g * g;
            }
            monitor.advance(points);
        }
    });
    monitor.end();
    double sum = 0;
    double squares = 0;
    for (const auto& part : sums) {
        sum += part[0];
        squares += part[1];
    }
    report.moment_points = options.moment;
    if (options.moment != 0) {
        const auto n = static_cast<double>(options.moment);
        report.second_moment = sum / n;
        report.standard_error =
            std::sqrt(std::max(0.0, squares / n - report.second_moment * report.second_moment) / n);
    }
    report.non_finite_refused = refuses_non_finite(decoder);
    return report;
}

}  // namespace kaiju::lattice
