// The walk of the encoders with error feedback over the blocks of 16 rows: what differs between wires is how
// a block's code words are found.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "stats/feedback.h"
#include "stats/lanes.h"

namespace kaiju::codec {

using Lanes = std::array<float, stats::kLanes>;
/// One number per coordinate of a block and lane.
using BlockLanes = std::array<Lanes, stats::kFeedbackBlock>;

inline constexpr size_t kBlockLanes = stats::kFeedbackBlock * stats::kLanes;

[[nodiscard]] inline float* flat(BlockLanes& block) {
    return block.front().data();
}
[[nodiscard]] inline const float* flat(const BlockLanes& block) {
    return block.front().data();
}

/// 16 rows under way, 24 x 16 numbers a block: weights, errors (decoded less weight), the feedback's state.
struct RowsUnderWay {
    const float* w;
    float* e;
    float* state;
};

/// Commits blocks first to last, each aiming at its weights less what is fed back; the shift is at most
/// `comp_cap` times the weights' norm (0: no limit). All rows go through a block together: of a full
/// covariance, what is read for one of them serves the others. search(block, targets, metric, errors) sets
/// the errors, decoded less target, of what it chose for each 16.
template <typename Search>
void commit_blocks(const stats::Feedback& feedback, size_t blocks, double comp_cap,
                   std::span<const RowsUnderWay> rows, const Search& search) {
    const stats::LaneKernels& lanes = stats::lane_kernels();
    BlockLanes shift;
    std::vector<BlockLanes> targets(rows.size());
    std::vector<BlockLanes> errors(rows.size());
    for (size_t block = 0; block < blocks; ++block) {
        for (size_t n = 0; n < rows.size(); ++n) {
            const float* const w = rows[n].w + block * kBlockLanes;
            feedback.shift(block, rows[n].state, flat(shift));
            Lanes norm;
            Lanes moved;
            lanes.dot(w, w, stats::kFeedbackBlock, norm.data());
            lanes.dot(flat(shift), flat(shift), stats::kFeedbackBlock, moved.data());
            Lanes scale;
            for (size_t lane = 0; lane < stats::kLanes; ++lane) {
                const double limit = comp_cap * comp_cap * norm[lane];
                scale[lane] = comp_cap > 0 && moved[lane] > limit
                                  ? static_cast<float>(std::sqrt(limit / moved[lane]))
                                  : 1.0F;
            }
            for (size_t at = 0; at < kBlockLanes; ++at) {
                flat(targets[n])[at] = w[at] - scale[at % stats::kLanes] * flat(shift)[at];
            }
        }
        search(block, std::span<const BlockLanes>(targets), feedback.metric(block),
               std::span<BlockLanes>(errors));
        for (size_t n = 0; n < rows.size(); ++n) {
            const float* const w = rows[n].w + block * kBlockLanes;
            float* const e = rows[n].e + block * kBlockLanes;
            for (size_t at = 0; at < kBlockLanes; ++at) {
                const float from = feedback.errors_from_target() ? 0.0F : flat(targets[n])[at] - w[at];
                e[at] = flat(errors[n])[at] + from;
            }
            feedback.commit(block, e, rows[n].state);
        }
    }
}

/// Chooses block after block again, all others fixed; all errors are in the states. e'Ŝe never grows where
/// `search` has what is there among its candidates.
template <typename Search>
void revise_blocks(const stats::Feedback& joint, size_t blocks, std::span<const RowsUnderWay> rows,
                   const Search& search) {
    std::vector<BlockLanes> shifts(rows.size());
    std::vector<BlockLanes> targets(rows.size());
    std::vector<BlockLanes> errors(rows.size());
    BlockLanes taken;
    for (size_t block = 0; block < blocks; ++block) {
        for (size_t n = 0; n < rows.size(); ++n) {
            const float* const w = rows[n].w + block * kBlockLanes;
            const float* const e = rows[n].e + block * kBlockLanes;
            for (size_t at = 0; at < kBlockLanes; ++at) {
                flat(taken)[at] = -e[at];
            }
            joint.commit(block, flat(taken), rows[n].state);
            joint.shift(block, rows[n].state, flat(shifts[n]));
            for (size_t at = 0; at < kBlockLanes; ++at) {
                flat(targets[n])[at] = w[at] - flat(shifts[n])[at];
            }
        }
        search(block, std::span<const BlockLanes>(targets), joint.metric(block),
               std::span<BlockLanes>(errors));
        for (size_t n = 0; n < rows.size(); ++n) {
            float* const e = rows[n].e + block * kBlockLanes;
            for (size_t at = 0; at < kBlockLanes; ++at) {
                e[at] = flat(errors[n])[at] - flat(shifts[n])[at];
            }
            joint.commit(block, e, rows[n].state);
        }
    }
}

}  // namespace kaiju::codec
