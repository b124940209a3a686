#include "codec/encoder_kaiju4.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "codec/block_feedback.h"

namespace kaiju::codec {

using kaiju4::kBlock;
using kaiju4::kMultipliers;
using lattice::ShellPoint;
using stats::kLanes;

namespace {

static_assert(kLanes == lattice::kShellLanes);

/// Steps are 1.15 apart; the middle of the four is the row's scale (docs/kaiju4-design.md).
constexpr kaiju4::Multipliers kSteps = {0.8108854F, 0.9325182F, 1.0723959F, 1.2332553F};

/// The best step of a Gaussian of variance 1, by index bits from 3 on (docs/kaiju4-design.md).
constexpr std::array<double, 10> kStepOfSigma = {0.452, 0.384, 0.326, 0.278, 0.238,
                                                 0.204, 0.173, 0.147, 0.125, 0.104};

float rounded_scale(float scale) {
    return kaiju4::from_bf16(kaiju4::to_bf16(scale));
}

}  // namespace

/// What a block of a piece's rows is to become.
struct EncoderKaiju4::Aim {
    size_t block;
    std::span<const BlockLanes> targets;  ///< one per group
    const float* metric;
    std::span<BlockLanes> errors;  ///< set: decoded less target
    bool keep_if_better;           ///< the code words that are there already are candidates too
};

/// A code word for one block of 16 rows, and what it costs.
struct EncoderKaiju4::Candidate {
    std::array<uint8_t, kLanes> q;
    std::array<ShellPoint, kLanes> points;
    BlockLanes error;     ///< decoded less target
    BlockLanes gradient;  ///< metric times error
    Lanes excess;         ///< error times gradient
};

/// 16 rows under way, rotated.
struct EncoderKaiju4::Group {
    std::vector<float> e;            ///< padded cols x 16: what is decoded less w
    std::vector<float> state;        ///< of the feedback
    std::vector<ShellPoint> points;  ///< blocks x 16
    std::vector<uint8_t> q;          ///< blocks x 16
    Lanes row_scale{};
    Candidate best;  ///< of the block at hand

    // Parts of the piece's arrays, padded cols x 16 each.
    float* w;   ///< the weights
    float* v;   ///< what is decoded, less the row scale
    float* hw;  ///< H w, Ŝ = H + H'
    float* hv;  ///< H v
};

/// The rows that go together, 16 a group.
struct EncoderKaiju4::Piece {
    Piece(size_t count, size_t numbers, size_t candidates)
        : groups(count),
          w(count * numbers),
          v(count * numbers),
          hw(count * numbers),
          hv(count * numbers),
          asked(count * kLanes),
          targets(count * kLanes),
          found(count * kLanes),
          points(candidates * count * kLanes) {
        for (size_t n = 0; n < count; ++n) {
            groups[n].w = w.data() + n * numbers;
            groups[n].v = v.data() + n * numbers;
            groups[n].hw = hw.data() + n * numbers;
            groups[n].hv = hv.data() + n * numbers;
        }
    }

    /// For the walk of block_feedback.h, states at 0.
    std::vector<RowsUnderWay> rows(size_t state_size) {
        std::vector<RowsUnderWay> rows;
        for (Group& group : groups) {
            group.state.assign(state_size * kLanes, 0.0F);
            rows.push_back({group.w, group.e.data(), group.state.data()});
        }
        return rows;
    }

    std::vector<Group> groups;
    std::vector<float> w;
    std::vector<float> v;
    std::vector<float> hw;
    std::vector<float> hv;

    // Scratch of search_block.
    std::vector<size_t> asked;  ///< 16 group + lane of what is still searched for, ascending
    std::vector<lattice::ShellTarget> targets;
    std::vector<lattice::ShellFound> found;
    std::vector<ShellPoint> points;
    Candidate candidate;
};

EncoderKaiju4::EncoderKaiju4(const kaiju4::Layout& layout, std::span<const float> importance,
                             const MakeRotatedCovariance& covariance, const V3Options& options)
    : layout_(layout),
      importance_(importance.begin(), importance.end()),
      options_(options),
      rotation_(layout.cols, kRotationSeed),
      search_(lattice::ShellBook::of(layout.index_bits)),
      multipliers_(kSteps),
      covariance_(covariance(rotation_, kBlock * layout.n_blocks() - layout.cols)) {
    check_importance(importance, layout.cols);
    sequential_ = covariance_->sequential(options.fold, stats::SideBand::last, damp_of(options), used_damp_);
    if (options.sweeps > 0) {
        joint_ = covariance_->joint(used_damp_);
    }
}

uint64_t EncoderKaiju4::bytes_per_thread(const kaiju4::Layout& layout) {
    constexpr uint64_t kArrays = 7;  // the row, w, v, H w, H v, e, state
    return kRowsPerPiece * layout.n_blocks() * (kArrays * sizeof(float) * kBlock + sizeof(ShellPoint) + 1);
}

std::vector<std::byte> EncoderKaiju4::head() const {
    return kaiju4::make_head(layout_, kRotationSeed, multipliers_);
}

void EncoderKaiju4::encode_rows(const float* weights, size_t count, std::byte* records,
                                EncodeStats* stats) const {
    Piece piece((count + kLanes - 1) / kLanes, layout_.n_blocks() * kBlockLanes,
                static_cast<size_t>(options_.candidates));
    const auto rows_of = [&](size_t n) { return std::min(kLanes, count - n * kLanes); };
    for (size_t n = 0; n < piece.groups.size(); ++n) {
        load(weights + n * kLanes * layout_.cols, rows_of(n), piece.groups[n]);
    }
    // Products with a full covariance take as long as the feedback. Only the fit of scales needs those of all
    // rows; for the telemetry a sample does.
    const size_t multiplied = options_.refit_scale ? piece.groups.size() : 1;
    covariance_->half_times(piece.w.data(), piece.hw.data(), multiplied);
    first_pass(piece);
    for (int n = 0; n < options_.sweeps; ++n) {
        if (options_.refit_scale) {
            multiply(piece, multiplied);
            refit(piece);
        }
        sweep(piece);
    }
    multiply(piece, multiplied);
    if (options_.refit_scale && options_.fold != stats::Fold::published) {
        refit(piece);
    }
    for (size_t n = 0; n < piece.groups.size(); ++n) {
        write(rows_of(n), piece.groups[n], records + n * kLanes * layout_.row_bytes(), stats + n * kLanes);
    }
    const double rows_a_row =
        options_.refit_scale ? 1 : static_cast<double>(count) / static_cast<double>(rows_of(0));
    for (size_t n = 0; n < multiplied; ++n) {
        add_full(rows_of(n), piece.groups[n], rows_a_row, stats + n * kLanes);
    }
}

void EncoderKaiju4::load(const float* weights, size_t count, Group& group) const {
    const size_t cols = layout_.cols;
    const size_t padded = kBlock * layout_.n_blocks();
    group.e.assign(padded * kLanes, 0.0F);
    group.points.assign(layout_.n_blocks() * kLanes, ShellPoint{});
    group.q.assign(layout_.n_blocks() * kLanes, 0);
    const double factor = kStepOfSigma[static_cast<size_t>(layout_.index_bits - lattice::kLeastIndexBits)];
    std::vector<double> row(cols);
    for (size_t r = 0; r < count; ++r) {
        std::copy_n(weights + r * cols, cols, row.begin());
        rotation_.rotate(row.data());
        double power = 0;
        for (size_t i = 0; i < cols; ++i) {
            group.w[i * kLanes + r] = static_cast<float>(row[i]);
            power += row[i] * row[i];
        }
        group.row_scale[r] =
            rounded_scale(static_cast<float>(factor * std::sqrt(power / static_cast<double>(cols))));
    }
}

void EncoderKaiju4::first_pass(Piece& piece) const {
    const auto rows = piece.rows(sequential_->state_size());
    commit_blocks(*sequential_, layout_.n_blocks(), options_.comp_cap, rows,
                  [&](size_t block, std::span<const BlockLanes> targets, const float* metric,
                      std::span<BlockLanes> errors) {
                      search_block({block, targets, metric, errors, false}, piece);
                  });
}

void EncoderKaiju4::sweep(Piece& piece) const {
    const auto rows = piece.rows(joint_->state_size());
    for (const RowsUnderWay& group : rows) {
        for (size_t block = 0; block < layout_.n_blocks(); ++block) {
            joint_->commit(block, group.e + block * kBlockLanes, group.state);
        }
    }
    revise_blocks(*joint_, layout_.n_blocks(), rows,
                  [&](size_t block, std::span<const BlockLanes> targets, const float* metric,
                      std::span<BlockLanes> errors) {
                      search_block({block, targets, metric, errors, true}, piece);
                  });
}

// The piece's candidate for the n-th group: takes the place of the best in those lanes where it is better.
void EncoderKaiju4::compare(const Aim& aim, size_t n, uint32_t lanes, Piece& piece) const {
    Group& group = piece.groups[n];
    Candidate& candidate = piece.candidate;
    Candidate& best = group.best;
    for (size_t lane = 0; lane < kLanes; ++lane) {
        const float step = group.row_scale[lane] * multipliers_[candidate.q[lane]];
        for (size_t i = 0; i < kBlock; ++i) {
            candidate.error[i][lane] =
                static_cast<float>(candidate.points[lane].x[i]) * step - aim.targets[n][i][lane];
        }
    }
    std::fill_n(flat(candidate.gradient), kBlock * kLanes, 0.0F);
    lanes_.multiply_add(aim.metric, kBlock, kBlock, kBlock, flat(candidate.error), flat(candidate.gradient));
    lanes_.dot(flat(candidate.error), flat(candidate.gradient), kBlock, candidate.excess.data());
    for (size_t lane = 0; lane < kLanes; ++lane) {
        if ((lanes >> lane & 1) != 0 && candidate.excess[lane] < best.excess[lane]) {
            best.q[lane] = candidate.q[lane];
            best.points[lane] = candidate.points[lane];
            best.excess[lane] = candidate.excess[lane];
            for (size_t i = 0; i < kBlock; ++i) {
                best.error[i][lane] = candidate.error[i][lane];
                best.gradient[i][lane] = candidate.gradient[i][lane];
            }
        }
    }
}

void EncoderKaiju4::search_block(const Aim& aim, Piece& piece) const {
    const auto keep = static_cast<size_t>(options_.candidates);
    Candidate& candidate = piece.candidate;
    for (size_t n = 0; n < piece.groups.size(); ++n) {
        Group& group = piece.groups[n];
        group.best.excess.fill(std::numeric_limits<float>::infinity());
        if (aim.keep_if_better) {  // first: what is there wins ties, so sweeps end
            std::copy_n(group.q.data() + aim.block * kLanes, kLanes, candidate.q.data());
            std::copy_n(group.points.data() + aim.block * kLanes, kLanes, candidate.points.data());
            compare(aim, n, (1U << kLanes) - 1, piece);
        }
    }
    piece.asked.resize(piece.groups.size() * kLanes);
    std::iota(piece.asked.begin(), piece.asked.end(), size_t{0});
    for (size_t q = 0; q < kMultipliers && !piece.asked.empty(); ++q) {
        const size_t count = piece.asked.size();
        for (size_t at = 0; at < count; ++at) {
            const size_t lane = piece.asked[at] % kLanes;
            const size_t n = piece.asked[at] / kLanes;
            const float step = piece.groups[n].row_scale[lane] * multipliers_[q];
            const float inverse = step > 0 ? 1 / step : 0;
            for (size_t i = 0; i < kBlock; ++i) {
                piece.targets[at][i] = aim.targets[n][i][lane] * inverse;
            }
        }
        const float least_scale = q + 1 < kMultipliers ? lattice::kLeastScale : 0;
        search_.near(std::span(piece.targets).first(count), least_scale, keep, piece.points, piece.found);
        candidate.q.fill(static_cast<uint8_t>(q));
        for (size_t first = 0, end = 0; first < count; first = end) {
            const size_t n = piece.asked[first] / kLanes;
            while (end < count && piece.asked[end] / kLanes == n) {
                ++end;
            }
            for (size_t which = 0; which < keep; ++which) {
                uint32_t lanes = 0;
                for (size_t at = first; at < end; ++at) {
                    if (which < piece.found[at].count) {
                        candidate.points[piece.asked[at] % kLanes] = piece.points[keep * at + which];
                        lanes |= 1U << piece.asked[at] % kLanes;
                    }
                }
                if (lanes != 0) {
                    compare(aim, n, lanes, piece);
                }
            }
        }
        // A point that is inside at one step is seldom nearer at a longer one.
        size_t left = 0;
        for (size_t at = 0; at < count; ++at) {
            if (!piece.found[at].inside) {
                piece.asked[left++] = piece.asked[at];
            }
        }
        piece.asked.resize(left);
    }
    for (size_t n = 0; n < piece.groups.size(); ++n) {
        Group& group = piece.groups[n];
        if (options_.descent > 0) {
            descend(aim.metric, group);
        }
        aim.errors[n] = group.best.error;
        std::copy_n(group.best.q.data(), kLanes, group.q.data() + aim.block * kLanes);
        std::copy_n(group.best.points.data(), kLanes, group.points.data() + aim.block * kLanes);
    }
}

// The nearest code word by distance is seldom the best in the metric. Any z may change by one where the book
// allows it: the move that lowers the metric most is made, as often as one does.
void EncoderKaiju4::descend(const float* metric, Group& group) const {
    Candidate& best = group.best;
    std::array<uint32_t, kLanes> forbidden{};
    Lanes move;  // of the decoded weight, for z + 1
    for (size_t lane = 0; lane < kLanes; ++lane) {
        move[lane] = 4 * group.row_scale[lane] * multipliers_[best.q[lane]];
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
                const bool better = change < least[lane] && (forbidden[lane] >> i & 1) == 0;
                least[lane] = better ? change : least[lane];
                which[lane] = better ? static_cast<int32_t>(i) : which[lane];
            }
        }
        bool tried = false;
        for (size_t lane = 0; lane < kLanes; ++lane) {
            if (which[lane] < 0) {
                continue;
            }
            tried = true;
            const auto at = static_cast<size_t>(which[lane]);
            const int direction = best.gradient[at][lane] > 0 ? -1 : 1;
            ShellPoint& point = best.points[lane];
            std::array<int, kBlock> x;
            std::copy(point.x.begin(), point.x.end(), x.begin());
            x[at] += 4 * direction;
            lattice::ShellCode code;
            if (!search_.book().encode(point.m, point.word, x.data(), code)) {
                forbidden[lane] |= 1U << at;
                continue;
            }
            point.x[at] = static_cast<int8_t>(x[at]);
            const float change = static_cast<float>(direction) * move[lane];
            best.error[at][lane] += change;
            for (size_t i = 0; i < kBlock; ++i) {
                best.gradient[i][lane] += change * metric[i * kBlock + at];
            }
        }
        if (!tried) {
            break;
        }
    }
}

// v = mult x, and H v.
void EncoderKaiju4::multiply(Piece& piece, size_t groups) const {
    for (const Group& group : std::span(piece.groups).first(groups)) {
        for (size_t i = 0; i < layout_.n_blocks() * kBlock; ++i) {
            for (size_t lane = 0; lane < kLanes; ++lane) {
                const size_t at = i / kBlock * kLanes + lane;
                group.v[i * kLanes + lane] =
                    multipliers_[group.q[at]] * static_cast<float>(group.points[at].x[i % kBlock]);
            }
        }
    }
    covariance_->half_times(piece.v.data(), piece.hv.data(), groups);
}

// e = s v - w: e'Ŝe is least at s = v'Ŝw / v'Ŝv.
void EncoderKaiju4::refit(Piece& piece) const {
    const size_t padded = kBlock * layout_.n_blocks();
    for (Group& group : piece.groups) {
        Lanes vhw;
        Lanes whv;
        Lanes vhv;
        lanes_.dot(group.v, group.hw, padded, vhw.data());
        lanes_.dot(group.w, group.hv, padded, whv.data());
        lanes_.dot(group.v, group.hv, padded, vhv.data());
        for (size_t lane = 0; lane < kLanes; ++lane) {
            const float numerator = vhw[lane] + whv[lane];
            const float scale = numerator / (2 * vhv[lane]);
            if (numerator > 0 && vhv[lane] > 0 && std::isfinite(scale)) {
                group.row_scale[lane] = rounded_scale(scale);
            }
        }
        for (size_t at = 0; at < padded * kLanes; ++at) {
            group.e[at] = group.row_scale[at % kLanes] * group.v[at] - group.w[at];
        }
    }
}

// Excess and energy in the metric of the covariance; each row stands for `rows`.
void EncoderKaiju4::add_full(size_t count, const Group& group, double rows, EncodeStats* stats) const {
    std::vector<float> he(group.e.size());
    for (size_t at = 0; at < he.size(); ++at) {
        he[at] = group.row_scale[at % kLanes] * group.hv[at] - group.hw[at];
    }
    Lanes excess;
    Lanes energy;
    lanes_.dot(he.data(), group.e.data(), he.size() / kLanes, excess.data());
    lanes_.dot(group.hw, group.w, he.size() / kLanes, energy.data());
    for (size_t r = 0; r < count; ++r) {
        stats[r].full_excess += 2.0 * rows * excess[r];
        stats[r].full_energy += 2.0 * rows * energy[r];
    }
}

void EncoderKaiju4::write(size_t count, const Group& group, std::byte* records, EncodeStats* stats) const {
    const size_t cols = layout_.cols;
    std::vector<double> delta(cols);
    std::vector<double> weight(cols);
    const auto back = [&](std::vector<double>& x) {  // out of the rotated basis
        for (size_t begin = 0; begin < cols; begin += rotation_.span()) {
            hadamard(x.data() + begin, rotation_.span());
        }
    };
    for (size_t r = 0; r < count; ++r) {
        auto* const record = reinterpret_cast<uint8_t*>(records) + r * layout_.row_bytes();
        std::fill_n(record, layout_.row_bytes(), uint8_t{0});
        store(record, kaiju4::to_bf16(group.row_scale[r]));
        for (size_t block = 0; block < layout_.n_blocks(); ++block) {
            const size_t at = block * kLanes + r;
            const ShellPoint& point = group.points[at];
            std::array<int, kBlock> x;
            std::copy(point.x.begin(), point.x.end(), x.begin());
            kaiju4::Block coded{.code = {}, .q = group.q[at]};
            (void)search_.book().encode(point.m, point.word, x.data(), coded.code);  // it is in the book
            kaiju4::put_block(record, layout_, block, coded);
            ++stats[r].blocks;
            ++stats[r].multipliers[group.q[at]];
        }
        for (size_t i = 0; i < cols; ++i) {
            delta[i] = group.e[i * kLanes + r];
            weight[i] = group.w[i * kLanes + r];
        }
        back(delta);
        back(weight);
        for (size_t i = 0; i < cols; ++i) {
            const double h = static_cast<double>(importance_[i]) / rotation_.span();
            stats[r].diagonal_excess += h * delta[i] * delta[i];
            stats[r].diagonal_energy += h * weight[i] * weight[i];
        }
    }
}

}  // namespace kaiju::codec
