#include "codec/encoder_v3.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "codec/block_feedback.h"
#include "codec/encoder_v1.h"
#include "lattice/golay.h"

namespace kaiju::codec {

using kaiju1::kBlock;
using kaiju1::kMultipliers;
using lattice::CodebookWord;
using stats::kLanes;

namespace {

/// A block's RMS over the step that is tried first, and a row's bulk RMS over row_scale (docs/encoder-v3.md).
constexpr double kRmsPerStep = 2.9;

/// The integers of 16 code words, a lane each.
void decode(const std::array<CodebookWord, kLanes>& words, BlockLanes& value) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
        const CodebookWord& word = words[lane];
        const uint32_t golay = lattice::kGolay[word.word];
        const int sign = word.flip ? -1 : 1;
        for (size_t i = 0; i < kBlock; ++i) {
            value[i][lane] =
                static_cast<float>(sign * (word.m + 2 * static_cast<int>(golay >> i & 1) + 4 * word.z[i]));
        }
    }
}

/// Distance from the step that is tried first, in multipliers, of the n-th that is tried: 0, 1, -1, 2, -2,
/// ...
int offset_of(int n) {
    return (n & 1) != 0 ? (n + 1) / 2 : -n / 2;
}

void require(bool fine, const char* what) {
    if (!fine) {
        throw Error(ErrorCode::usage, what);
    }
}

}  // namespace

V3Options v3_defaults(bool full_covariance) {
    V3Options options;
    if (full_covariance) {
        options.step_search = 5;
        options.sweeps = 1;
    }
    return options;
}

double damp_of(const V3Options& options, uint64_t inputs, uint64_t samples) {
    constexpr double kLeast = 0.01;
    constexpr double kOfInputs = 0.4;
    constexpr double kMost = 1;
    if (options.damp) {
        return *options.damp;
    }
    return samples == 0 ? kLeast
                        : std::clamp(kOfInputs * static_cast<double>(inputs) / static_cast<double>(samples),
                                     kLeast, kMost);
}

void check(const V3Options& options) {
    require(options.step_search >= 1 && options.step_search <= static_cast<int>(kMultipliers),
            "--step-search must be 1 to 16");
    require(options.comp_cap >= 0, "--comp-cap must be 0 (none) or more");
    require(!options.damp || (*options.damp >= 0 && *options.damp <= 1), "--damp must be 0 to 1");
    require(options.sweeps >= 0 && options.sweeps <= 100, "--sweeps must be 0 to 100");
    require(options.candidates >= 1 && options.candidates <= 16, "--candidates must be 1 to 16");
    require(options.descent >= 0 && options.descent <= 100, "--descent must be 0 to 100");
    require(options.fold == stats::Fold::ldlq || options.sweeps == 0,
            "--sweeps improve what feedback in the right order leaves: with --fold none or published say "
            "--sweeps 0");
}

/// What a block is to become: 16 rows of targets, and where the search of steps begins.
struct EncoderV3::Aim {
    const BlockLanes& target;
    std::array<uint8_t, kLanes> first_q;
    const float* metric;
    bool keep_if_better;  ///< the code words that are there already are candidates too
};

/// A code word for one block of 16 rows, and what it costs.
struct EncoderV3::Candidate {
    std::array<uint8_t, kLanes> q;
    std::array<CodebookWord, kLanes> words;
    BlockLanes value;     ///< the integers C
    BlockLanes error;     ///< decoded less target
    BlockLanes gradient;  ///< metric times error
    Lanes excess;         ///< error times gradient
};

/// 16 rows under way, all arrays in coded order.
struct EncoderV3::Group {
    size_t rows = 0;
    std::vector<float> w;       ///< cols x 16
    std::vector<float> e;       ///< cols x 16: what is decoded less w (less the target, for Fold::published)
    std::vector<float> hi;      ///< n_hi x 16: the side-band's integers
    std::vector<float> values;  ///< bulk x 16: the integers C
    std::vector<float> state;   ///< of the feedback
    std::vector<CodebookWord> words;  ///< blocks x 16
    std::vector<uint8_t> q;           ///< blocks x 16
    std::vector<uint16_t> clamped;    ///< blocks x 16
    Lanes row_scale{};
    Lanes hi_scale{};

    // Scratch of search_block.
    std::vector<float> points;          ///< step_search x 16 x 24
    std::vector<CodebookWord> found;    ///< step_search x 16
    std::vector<Candidate> candidates;  ///< step_search + 1
    Candidate best;
};

EncoderV3::EncoderV3(const kaiju1::Layout& layout, std::span<const float> importance,
                     std::span<const double> column_energy, const MakeCovariance& covariance,
                     const lattice::CodebookSearch& search, const V3Options& options)
    : Kaiju1RowEncoder(layout, importance),
      options_(options),
      multipliers_(powers_of_two(4, -2)),
      thresholds_(step_thresholds(multipliers_)),
      search_(search) {
    std::vector<double> score(layout.cols);
    for (size_t i = 0; i < score.size(); ++i) {
        score[i] = importance[i] * column_energy[i];
    }
    order_columns(score);
    if (layout.perm_kind == 1) {
        order_bulk(importance);
    }
    covariance_ = covariance(columns(), layout.n_hi);
    sequential_ = covariance_->sequential(options.fold, options.side_band, damp_of(options), used_damp_);
    if (options.sweeps > 0) {
        joint_ = covariance_->joint(used_damp_);
    }
}

uint64_t EncoderV3::bytes_per_thread(const kaiju1::Layout& layout) {
    constexpr uint64_t kArrays = 9;  // the row, w, e, values, state, and what refit holds
    return kLanes * (kArrays * sizeof(float) * layout.cols + layout.n_blocks * (sizeof(CodebookWord) + 3));
}

uint64_t EncoderV3::shared_bytes(uint64_t cols, uint64_t rank) {
    // Sketch: U in f64 and both directions in f32, twice the feedback of two directions. Full: the matrix as
    // read and in order, half a matrix for its factor and half for feedback, one for sweeps.
    return rank > 0 ? cols * rank * (sizeof(double) + 6 * sizeof(float)) : cols * cols * 4 * sizeof(float);
}

std::vector<std::byte> EncoderV3::head() const {
    return kaiju1::make_head(layout(), multipliers_, columns());
}

void EncoderV3::encode_rows(const float* weights, size_t count, std::byte* records,
                            EncodeStats* stats) const {
    Group group;
    for (size_t row = 0; row < count; row += kLanes) {
        const float* const first = weights + row * layout().cols;
        std::byte* const out = records + row * layout().row_bytes();
        const size_t rows = std::min(kLanes, count - row);
        load(first, rows, group);
        first_pass(group);
        for (int n = 0; n < options_.sweeps; ++n) {
            if (options_.refit_scale) {
                refit(group);
            }
            sweep(group);
        }
        if (options_.refit_scale && options_.fold != stats::Fold::published) {
            refit(group);
        }
        write(first, rows, group, out, stats + row);
    }
}

void EncoderV3::load(const float* weights, size_t count, Group& group) const {
    const size_t cols = layout().cols;
    group.rows = count;
    group.w.assign(cols * kLanes, 0.0F);
    group.e.assign(cols * kLanes, 0.0F);
    group.hi.assign(layout().n_hi * kLanes, 0.0F);
    group.hi_scale.fill(0);
    group.row_scale.fill(0);
    group.values.assign((cols - layout().n_hi) * kLanes, 0.0F);
    group.words.resize(layout().n_blocks * kLanes);
    group.q.assign(layout().n_blocks * kLanes, 0);
    group.clamped.assign(layout().n_blocks * kLanes, 0);
    group.points.resize(static_cast<size_t>(options_.step_search) * kLanes * kBlock);
    group.found.resize(static_cast<size_t>(options_.step_search) * kLanes);
    group.candidates.resize(static_cast<size_t>(options_.step_search) + 1);
    for (size_t r = 0; r < count; ++r) {
        double power = 0;
        for (size_t i = 0; i < cols; ++i) {
            const float w = weights[r * cols + columns()[i]];
            group.w[i * kLanes + r] = w;
            power += i < layout().n_hi ? 0 : static_cast<double>(w) * w;
        }
        const double bulk = std::max<double>(1, static_cast<double>(cols - layout().n_hi));
        group.row_scale[r] = static_cast<float>(std::sqrt(power / bulk) / kRmsPerStep);
    }
}

void EncoderV3::first_pass(Group& group) const {
    const size_t n_hi = layout().n_hi;
    group.state.assign(sequential_->state_size() * kLanes, 0.0F);
    const bool last = options_.side_band == stats::SideBand::last && options_.fold == stats::Fold::ldlq;
    if (!last) {
        round_side_band(group.w.data(), group);
        sequential_->commit_side_band(group.e.data(), group.state.data());
    }
    const RowsUnderWay rows = {group.w.data() + n_hi * kLanes, group.e.data() + n_hi * kLanes,
                               group.state.data()};
    commit_blocks(*sequential_, layout().n_blocks, options_.comp_cap, std::span(&rows, 1),
                  [&](size_t block, std::span<const BlockLanes> target, const float* metric,
                      std::span<BlockLanes> error) {
                      search_block(block, {target[0], first_steps(target[0], group), metric, false}, group);
                      error[0] = group.best.error;
                  });
    if (last) {
        take_up(*sequential_, group);
    }
}

// The multiplier whose step the target's RMS suggests.
std::array<uint8_t, kLanes> EncoderV3::first_steps(const BlockLanes& target, const Group& group) const {
    Lanes power;
    lanes_.dot(flat(target), flat(target), kBlock, power.data());
    std::array<uint8_t, kLanes> first;
    for (size_t lane = 0; lane < kLanes; ++lane) {
        const double suggested = kRmsPerStep * static_cast<double>(group.row_scale[lane]);
        const double ratio = suggested > 0 ? power[lane] / kBlock / (suggested * suggested) : 0;
        first[lane] = static_cast<uint8_t>(std::upper_bound(thresholds_.begin(), thresholds_.end(), ratio) -
                                           thresholds_.begin());
    }
    return first;
}

// The largest magnitude of a row over 127 is its scale.
void EncoderV3::round_side_band(const float* targets, Group& group) const {
    constexpr float kLargest = 127;
    const size_t n_hi = layout().n_hi;
    Lanes largest{};
    for (size_t i = 0; i < n_hi * kLanes; ++i) {
        largest[i % kLanes] = std::max(largest[i % kLanes], std::fabs(targets[i]));
    }
    for (size_t lane = 0; lane < kLanes; ++lane) {
        group.hi_scale[lane] = largest[lane] / kLargest;
    }
    for (size_t i = 0; i < n_hi * kLanes; ++i) {
        const float scale = group.hi_scale[i % kLanes];
        const float rounded = scale > 0 ? std::nearbyint(targets[i] / scale) : 0;
        group.hi[i] = std::clamp(rounded, -kLargest, kLargest);
        group.e[i] = scale * group.hi[i] - group.w[i];
    }
}

// The side-band takes up what the blocks leave: their errors are in the state, its own are not.
void EncoderV3::take_up(const stats::Feedback& feedback, Group& group) const {
    std::vector<float> targets(layout().n_hi * kLanes);
    feedback.shift_side_band(group.state.data(), targets.data());
    for (size_t i = 0; i < targets.size(); ++i) {
        targets[i] = group.w[i] - targets[i];
    }
    round_side_band(targets.data(), group);
}

// Block by block, all others fixed: e'Ŝe never grows, since the code word that is there is a candidate.
void EncoderV3::sweep(Group& group) const {
    const size_t n_hi = layout().n_hi;
    group.state.assign(joint_->state_size() * kLanes, 0.0F);
    joint_->commit_side_band(group.e.data(), group.state.data());
    for (size_t block = 0; block < layout().n_blocks; ++block) {
        joint_->commit(block, group.e.data() + (n_hi + block * kBlock) * kLanes, group.state.data());
    }
    const RowsUnderWay rows = {group.w.data() + n_hi * kLanes, group.e.data() + n_hi * kLanes,
                               group.state.data()};
    revise_blocks(*joint_, layout().n_blocks, std::span(&rows, 1),
                  [&](size_t block, std::span<const BlockLanes> target, const float* metric,
                      std::span<BlockLanes> error) {
                      std::array<uint8_t, kLanes> there;
                      std::copy_n(group.q.data() + block * kLanes, kLanes, there.data());
                      search_block(block, {target[0], there, metric, true}, group);
                      error[0] = group.best.error;
                  });
    if (options_.side_band == stats::SideBand::last) {
        std::vector<float> mine(group.e.begin(), group.e.begin() + static_cast<ptrdiff_t>(n_hi * kLanes));
        std::transform(mine.begin(), mine.end(), mine.begin(), std::negate<>());
        joint_->commit_side_band(mine.data(), group.state.data());
        take_up(*joint_, group);
    }
}

void EncoderV3::search_block(size_t block, const Aim& aim, Group& group) const {
    const auto searched = static_cast<size_t>(options_.step_search);
    std::span<Candidate> candidates(group.candidates.data(), searched + (aim.keep_if_better ? 1 : 0));
    for (size_t n = 0; n < searched; ++n) {
        Candidate& candidate = candidates[n];
        for (size_t lane = 0; lane < kLanes; ++lane) {
            const int wanted = aim.first_q[lane] + offset_of(static_cast<int>(n));
            candidate.q[lane] =
                static_cast<uint8_t>(std::clamp(wanted, 0, static_cast<int>(kMultipliers) - 1));
            const float step = group.row_scale[lane] * multipliers_[candidate.q[lane]];
            const float inverse = step > 0 ? 1 / step : 0;
            float* const point = group.points.data() + (n * kLanes + lane) * kBlock;
            for (size_t i = 0; i < kBlock; ++i) {
                point[i] = aim.target[i][lane] * inverse;
            }
        }
    }
    search_.nearest(group.points, group.found);
    for (size_t n = 0; n < searched; ++n) {
        std::copy_n(group.found.data() + n * kLanes, kLanes, candidates[n].words.data());
        decode(candidates[n].words, candidates[n].value);
    }
    float* const values = group.values.data() + block * kBlock * kLanes;
    if (aim.keep_if_better) {
        std::copy_n(group.q.data() + block * kLanes, kLanes, candidates.back().q.data());
        std::copy_n(group.words.data() + block * kLanes, kLanes, candidates.back().words.data());
        std::copy_n(values, kBlock * kLanes, flat(candidates.back().value));
    }
    for (Candidate& candidate : candidates) {
        Lanes step;
        for (size_t lane = 0; lane < kLanes; ++lane) {
            step[lane] = group.row_scale[lane] * multipliers_[candidate.q[lane]];
        }
        for (size_t i = 0; i < kBlock; ++i) {
            for (size_t lane = 0; lane < kLanes; ++lane) {
                candidate.error[i][lane] = candidate.value[i][lane] * step[lane] - aim.target[i][lane];
            }
        }
        std::fill_n(flat(candidate.gradient), kBlock * kLanes, 0.0F);
        lanes_.multiply_add(aim.metric, kBlock, kBlock, kBlock, flat(candidate.error),
                            flat(candidate.gradient));
        lanes_.dot(flat(candidate.error), flat(candidate.gradient), kBlock, candidate.excess.data());
    }
    Candidate& best = group.best;
    for (size_t lane = 0; lane < kLanes; ++lane) {
        // What is there wins ties: sweeps end.
        const Candidate* chosen = &candidates.back();
        for (const Candidate& candidate : candidates) {
            chosen = candidate.excess[lane] < chosen->excess[lane] ? &candidate : chosen;
        }
        best.q[lane] = chosen->q[lane];
        best.words[lane] = chosen->words[lane];
        for (size_t i = 0; i < kBlock; ++i) {
            best.value[i][lane] = chosen->value[i][lane];
            best.error[i][lane] = chosen->error[i][lane];
            best.gradient[i][lane] = chosen->gradient[i][lane];
        }
    }
    if (options_.codebook == lattice::Parity::free && options_.descent > 0) {
        descend(aim.metric, group);
    }
    std::copy_n(flat(best.value), kBlock * kLanes, values);
    std::copy_n(best.q.data(), kLanes, group.q.data() + block * kLanes);
    std::copy_n(best.words.data(), kLanes, group.words.data() + block * kLanes);
    for (size_t lane = 0; lane < kLanes; ++lane) {
        const float step = group.row_scale[lane] * multipliers_[best.q[lane]];
        const float inverse = step > 0 ? 1 / step : 0;
        int clamped = 0;
        for (size_t i = 0; i < kBlock; ++i) {
            clamped += is_clamped(best.words[lane], i, aim.target[i][lane] * inverse) ? 1 : 0;
        }
        group.clamped[block * kLanes + lane] = static_cast<uint16_t>(clamped);
    }
}

// The nearest code word by distance is seldom the best in the metric. Any z may change by one: the move that
// lowers the metric most is made, as often as one does.
void EncoderV3::descend(const float* metric, Group& group) const {
    Candidate& best = group.best;
    Lanes move;  // of the decoded weight, for z + 1
    for (size_t lane = 0; lane < kLanes; ++lane) {
        move[lane] =
            4 * (best.words[lane].flip ? -1.0F : 1.0F) * group.row_scale[lane] * multipliers_[best.q[lane]];
    }
    for (int n = 0; n < options_.descent; ++n) {
        Lanes least{};
        std::array<int32_t, kLanes> which;
        which.fill(-1);
        for (size_t i = 0; i < kBlock; ++i) {
            const float diagonal = metric[i * kBlock + i];
            for (size_t lane = 0; lane < kLanes; ++lane) {
                // z moves against the slope if it may.
                const float change =
                    move[lane] * move[lane] * diagonal - 2 * std::fabs(move[lane] * best.gradient[i][lane]);
                const bool better = change < least[lane];
                least[lane] = better ? change : least[lane];
                which[lane] = better ? static_cast<int32_t>(i) : which[lane];
            }
        }
        bool moved = false;
        for (size_t lane = 0; lane < kLanes; ++lane) {
            if (which[lane] < 0) {
                continue;
            }
            const auto at = static_cast<size_t>(which[lane]);
            const int direction = move[lane] * best.gradient[at][lane] > 0 ? -1 : 1;
            int8_t& z = best.words[lane].z[at];
            if (z + direction > 1 || z + direction < -1) {
                continue;
            }
            moved = true;
            const float change = static_cast<float>(direction) * move[lane];
            z = static_cast<int8_t>(z + direction);
            best.value[at][lane] +=
                static_cast<float>(best.words[lane].flip ? -4 * direction : 4 * direction);
            best.error[at][lane] += change;
            for (size_t i = 0; i < kBlock; ++i) {
                best.gradient[i][lane] += change * metric[i * kBlock + at];
            }
        }
        if (!moved) {
            break;
        }
    }
}

// e = s v + h - w with v = mult C, h the side-band: e'Ŝe is least at s = v'Ŝ(w - h) / v'Ŝv.
void EncoderV3::refit(Group& group) const {
    const size_t n_hi = layout().n_hi;
    const size_t cols = layout().cols;
    std::vector<float> v(cols * kLanes, 0.0F);
    std::vector<float> product(cols * kLanes);
    std::vector<float> rest(cols * kLanes);  // w - h
    for (size_t i = 0; i < n_hi * kLanes; ++i) {
        rest[i] = group.w[i] - group.hi_scale[i % kLanes] * group.hi[i];
    }
    std::copy(group.w.begin() + static_cast<ptrdiff_t>(n_hi * kLanes), group.w.end(),
              rest.begin() + static_cast<ptrdiff_t>(n_hi * kLanes));
    for (size_t i = 0; i < cols - n_hi; ++i) {
        for (size_t lane = 0; lane < kLanes; ++lane) {
            const uint8_t q = group.q[i / kBlock * kLanes + lane];
            v[(n_hi + i) * kLanes + lane] = multipliers_[q] * group.values[i * kLanes + lane];
        }
    }
    covariance_->times(v.data(), product.data());
    Lanes numerator;
    Lanes denominator;
    lanes_.dot(product.data(), rest.data(), cols, numerator.data());
    lanes_.dot(product.data(), v.data(), cols, denominator.data());
    for (size_t lane = 0; lane < kLanes; ++lane) {
        if (numerator[lane] > 0 && denominator[lane] > 0 &&
            std::isfinite(numerator[lane] / denominator[lane])) {
            group.row_scale[lane] = numerator[lane] / denominator[lane];
        }
    }
    for (size_t i = n_hi * kLanes; i < cols * kLanes; ++i) {
        group.e[i] = group.row_scale[i % kLanes] * v[i] - group.w[i];
    }
}

void EncoderV3::add_legacy(const float* weights, const float* mine, size_t count, EncodeStats& stats) const {
    kaiju1::Layout sample = layout();
    sample.rows = static_cast<uint32_t>(count);
    sample.perm_kind = 0;
    const lattice::CodebookSearch search(lattice::Parity::kept);
    const EncoderV1 legacy(sample, importance(), search);
    std::vector<std::byte> payload = legacy.head();
    const size_t rows_at = payload.size();
    payload.resize(sample.payload_bytes());
    std::vector<EncodeStats> row_stats(count);
    legacy.encode_rows(weights, count, payload.data() + rows_at, row_stats.data());
    const size_t cols = layout().cols;
    std::vector<float> decoded(count * cols);
    kaiju1::TensorView{Bytes(payload)}.decode_rows(0, count, decoded.data());

    std::vector<float> e(cols * kLanes, 0.0F);
    std::vector<float> own(cols * kLanes, 0.0F);
    std::vector<float> w(cols * kLanes, 0.0F);
    std::vector<float> product(cols * kLanes);
    for (size_t r = 0; r < count; ++r) {
        for (size_t i = 0; i < cols; ++i) {
            w[i * kLanes + r] = weights[r * cols + columns()[i]];
            e[i * kLanes + r] = decoded[r * cols + columns()[i]] - w[i * kLanes + r];
            own[i * kLanes + r] = mine[r * cols + columns()[i]] - w[i * kLanes + r];
        }
        stats.legacy_blocks += row_stats[r].blocks;
        stats.legacy_clamped_blocks += row_stats[r].clamped_blocks;
    }
    Lanes sums;
    const auto add = [&](const std::vector<float>& x, double& total) {
        covariance_->times(x.data(), product.data());
        lanes_.dot(x.data(), product.data(), cols, sums.data());
        total += std::accumulate(sums.begin(), sums.end(), 0.0);
    };
    add(e, stats.legacy_full_excess);
    add(w, stats.legacy_full_energy);
    add(own, stats.sample_full_excess);
}

void EncoderV3::write(const float* weights, size_t count, const Group& group, std::byte* records,
                      EncodeStats* stats) const {
    std::vector<float> product(layout().cols * kLanes);
    Lanes excess;
    Lanes energy;
    std::vector<float> e(group.e);
    if (sequential_->errors_from_target()) {  // then e is not what is decoded less w
        for (size_t i = layout().n_hi * kLanes; i < e.size(); ++i) {
            const size_t at = i - layout().n_hi * kLanes;
            const uint8_t q = group.q[at / (kBlock * kLanes) * kLanes + i % kLanes];
            e[i] = group.row_scale[i % kLanes] * multipliers_[q] * group.values[at] - group.w[i];
        }
    }
    covariance_->times(e.data(), product.data());
    lanes_.dot(product.data(), e.data(), layout().cols, excess.data());
    covariance_->times(group.w.data(), product.data());
    lanes_.dot(product.data(), group.w.data(), layout().cols, energy.data());
    for (size_t r = 0; r < count; ++r) {
        auto* const record = reinterpret_cast<uint8_t*>(records) + r * layout().row_bytes();
        const kaiju1::RowFields fields(record, layout());
        store(fields.scales, group.row_scale[r]);
        store(fields.scales + 4, group.hi_scale[r]);
        for (size_t i = 0; i < layout().n_hi; ++i) {
            store(fields.hi + i, static_cast<int8_t>(group.hi[i * kLanes + r]));
        }
        std::fill_n(fields.nibbles, layout().nibble_bytes(), uint8_t{0});
        for (size_t block = 0; block < layout().n_blocks; ++block) {
            const size_t at = block * kLanes + r;
            const CodebookWord& word = group.words[at];
            fields.nibbles[block / 2] |= static_cast<uint8_t>(group.q[at] << (4 * (block & 1)));
            const kaiju1::Code code = kaiju1::pack(
                {.word = word.word, .m = word.m, .flip = word.flip, .watermark = true, .z = word.z});
            std::copy(code.begin(), code.end(), fields.codes + kaiju1::kCodeBytes * block);
            ++stats[r].blocks;
            ++stats[r].multipliers[group.q[at]];
            stats[r].clamped_blocks += group.clamped[at] > 0 ? 1 : 0;
            stats[r].clamped_trits += group.clamped[at];
        }
        stats[r].full_excess += excess[r];
        stats[r].full_energy += energy[r];
        add_diagonal(weights + r * layout().cols, record, multipliers_, stats[r]);
    }
}

}  // namespace kaiju::codec
