#include "lattice/shell_gate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "base/parallel.h"
#include "lattice/golay.h"

namespace kaiju::lattice {

namespace {

constexpr unsigned kPatterns = 16;
constexpr float kFar = std::numeric_limits<float>::infinity();

/// Squared distances of one point's groups: the nearest vector of every ring, and of all.
struct GroupDistances {
    std::array<float, kRings> ring;
    float all;
};

std::vector<float> gaussian(const ShellGateOptions& options) {
    std::mt19937_64 random(options.seed);
    std::normal_distribution<double> normal;
    std::vector<float> source(options.blocks * kDimension);
    std::generate(source.begin(), source.end(), [&] { return static_cast<float>(normal(random)); });
    return source;
}

double step_of(const ShellGateOptions& options, double step, size_t which) {
    return step * std::pow(options.ratio, static_cast<double>(which) - 0.5 * (kShellSteps - 1));
}

struct Sums {
    double error = 0;
    uint64_t searches = 0;
    uint64_t inside = 0;
};

/// Blocks that are searched together.
constexpr size_t kTogether = 128;

/// The summed error of `count` blocks, each at the best of the four steps, as EncoderKaiju4 chooses without a
/// covariance.
Sums search_together(const ShellSearch& search, const ShellGateOptions& options, const float* source,
                     size_t count, double step) {
    Sums sums;
    std::vector<double> best(count, std::numeric_limits<double>::infinity());
    std::vector<size_t> asked(count);
    std::iota(asked.begin(), asked.end(), size_t{0});
    std::vector<ShellTarget> targets(count);
    std::vector<ShellPoint> out(count);
    std::vector<ShellFound> found(count);
    for (size_t q = 0; q < kShellSteps && !asked.empty(); ++q) {
        const double size = step_of(options, step, q);
        for (size_t n = 0; n < asked.size(); ++n) {
            for (size_t i = 0; i < kDimension; ++i) {
                targets[n][i] = static_cast<float>(source[asked[n] * kDimension + i] / size);
            }
        }
        search.near(std::span(targets).first(asked.size()), q + 1 < kShellSteps ? kLeastScale : 0, 1, out,
                    found);
        sums.searches += asked.size();
        size_t left = 0;
        for (size_t n = 0; n < asked.size(); ++n) {
            if (found[n].count > 0) {
                best[asked[n]] = std::min(best[asked[n]], out[n].d2 * size * size);
            }
            sums.inside += found[n].inside ? 1 : 0;
            if (!found[n].inside) {
                asked[left++] = asked[n];
            }
        }
        asked.resize(left);
    }
    sums.error = std::accumulate(best.begin(), best.end(), 0.0);
    return sums;
}

Sums search_all(const ShellSearch& search, const ShellGateOptions& options, const std::vector<float>& source,
                size_t blocks, double step) {
    const size_t batches = (blocks + kTogether - 1) / kTogether;
    std::vector<Sums> parts(batches);
    parallel_for(batches, 1, options.threads, [&](size_t begin, size_t end) {
        for (size_t batch = begin; batch < end; ++batch) {
            const size_t first = batch * kTogether;
            parts[batch] = search_together(search, options, source.data() + first * kDimension,
                                           std::min(kTogether, blocks - first), step);
        }
    });
    Sums sums;
    for (const Sums& part : parts) {
        sums.error += part.error;
        sums.searches += part.searches;
        sums.inside += part.inside;
    }
    return sums;
}

}  // namespace

float exhaustive_distance(const ShellBook& book, std::span<const float> y) {
    const size_t ring_size = size_t{1} << book.index_bits();
    std::vector<GroupDistances> groups(2 * kGroups * kPatterns);
    const auto group_at = [&](unsigned m, size_t j, unsigned pattern) -> GroupDistances& {
        return groups[(m * kGroups + j) * kPatterns + pattern];
    };
    for (unsigned m = 0; m < 2; ++m) {
        for (unsigned pattern = 0; pattern < kPatterns; ++pattern) {
            for (size_t j = 0; j < kGroups; ++j) {
                group_at(m, j, pattern).ring.fill(kFar);
            }
            for (size_t position = 0; position < kRings * ring_size; ++position) {
                const GroupVector x = book.vector(m, pattern, position);
                for (size_t j = 0; j < kGroups; ++j) {
                    float d2 = 0;
                    for (size_t i = 0; i < kGroupSize; ++i) {
                        const float e = y[kGroupSize * j + i] - static_cast<float>(x[i]);
                        d2 += e * e;
                    }
                    float& best = group_at(m, j, pattern).ring[position / ring_size];
                    best = std::min(best, d2);
                }
            }
            for (size_t j = 0; j < kGroups; ++j) {
                GroupDistances& group = group_at(m, j, pattern);
                group.all = *std::min_element(group.ring.begin(), group.ring.end());
            }
        }
    }
    std::vector<std::pair<float, uint32_t>> words;  // without regard to sequences: a lower bound
    for (unsigned m = 0; m < 2; ++m) {
        for (uint32_t word = 0; word < kGolayWords; ++word) {
            float bound = 0;
            for (size_t j = 0; j < kGroups; ++j) {
                bound += group_at(m, j, kGolay[word] >> (kGroupSize * j) & 15).all;
            }
            words.emplace_back(bound, m << 12 | word);
        }
    }
    std::sort(words.begin(), words.end());
    float best = kFar;
    for (const auto& [bound, id] : words) {
        if (bound >= best) {
            break;
        }
        std::array<const GroupDistances*, kGroups> group;
        for (size_t j = 0; j < kGroups; ++j) {
            group[j] = &group_at(id >> 12, j, kGolay[id & 4095] >> (kGroupSize * j) & 15);
        }
        for (size_t n = 0; n < kSequences; ++n) {
            const Rings& rings = book.rings(n);
            float sum = 0;
            for (size_t j = 0; j < kGroups; ++j) {
                sum += group[j]->ring[rings[j]];
            }
            best = std::min(best, sum);
        }
    }
    return best;
}

ShellDistortion shell_distortion(int index_bits, const ShellGateOptions& options, Monitor& monitor) {
    const ShellBook& book = ShellBook::of(index_bits);
    const ShellSearch search(book);
    const std::vector<float> source = gaussian(options);
    ShellDistortion result{.index_bits = index_bits, .bits = 1 + index_bits / 4.0};
    const double bound = std::pow(4, -result.bits);
    // The mean square of a step's cell is about half its square, whatever the rate.
    const double guess = std::sqrt(2.5 * bound);
    constexpr int kRounds = 9;
    constexpr double kGolden = 0.6180339887498949;
    double low = 0.8 * guess;
    double high = 1.25 * guess;
    const auto error_at = [&](double step) {
        monitor.check_cancelled();
        return search_all(search, options, source, options.blocks, step).error;
    };
    double left = high - kGolden * (high - low);
    double right = low + kGolden * (high - low);
    double at_left = error_at(left);
    double at_right = error_at(right);
    for (int n = 0; n < kRounds; ++n) {
        if (at_left < at_right) {
            high = right;
            right = left;
            at_right = at_left;
            left = high - kGolden * (high - low);
            at_left = error_at(left);
        } else {
            low = left;
            left = right;
            at_left = at_right;
            right = low + kGolden * (high - low);
            at_right = error_at(right);
        }
    }
    result.step = at_left < at_right ? left : right;
    const Sums sums = search_all(search, options, source, options.blocks, result.step);
    const auto coordinates = static_cast<double>(options.blocks * kDimension);
    result.mse = sums.error / coordinates;
    result.gap_db = 10 * std::log10(result.mse / bound);
    result.inside = static_cast<double>(sums.inside) / static_cast<double>(sums.searches);
    const size_t checked = std::min(options.exhaustive, options.blocks);
    if (checked > 0) {
        std::vector<double> errors(checked);
        parallel_for(checked, 1, options.threads, [&](size_t begin, size_t end) {
            monitor.check_cancelled();
            for (size_t n = begin; n < end; ++n) {
                double best = std::numeric_limits<double>::infinity();
                for (size_t q = 0; q < kShellSteps; ++q) {
                    const double size = step_of(options, result.step, q);
                    std::array<float, kDimension> y;
                    for (size_t i = 0; i < kDimension; ++i) {
                        y[i] = static_cast<float>(source[n * kDimension + i] / size);
                    }
                    best = std::min(best, exhaustive_distance(book, y) * size * size);
                }
                errors[n] = best;
            }
        });
        const auto per = static_cast<double>(checked * kDimension);
        result.exhaustive_mse = std::accumulate(errors.begin(), errors.end(), 0.0) / per;
        result.searched_mse = search_all(search, options, source, checked, result.step).error / per;
    }
    return result;
}

}  // namespace kaiju::lattice
