// The walk of the encoders with error feedback over the blocks of 16 rows: what differs between wires is how
// a block's code words are found.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

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

/// Commits blocks first to last, each aiming at its weights less what is fed back; the shift is at most
/// `comp_cap` times the weights' norm (0: no limit). w, e: 24 x 16 a block. search(block, target, metric)
/// returns the errors, decoded less target, of what it chose.
template <typename Search>
void commit_blocks(const stats::Feedback& feedback, size_t blocks, double comp_cap, const float* w, float* e,
                   float* state, const Search& search) {
    const stats::LaneKernels& lanes = stats::lane_kernels();
    BlockLanes shift;
    BlockLanes target;
    for (size_t block = 0; block < blocks; ++block, w += kBlockLanes, e += kBlockLanes) {
        feedback.shift(block, state, flat(shift));
        Lanes norm;
        Lanes moved;
        lanes.dot(w, w, stats::kFeedbackBlock, norm.data());
        lanes.dot(flat(shift), flat(shift), stats::kFeedbackBlock, moved.data());
        for (size_t lane = 0; lane < stats::kLanes; ++lane) {
            const double limit = comp_cap * comp_cap * norm[lane];
            const float scale = comp_cap > 0 && moved[lane] > limit
                                    ? static_cast<float>(std::sqrt(limit / moved[lane]))
                                    : 1.0F;
            for (size_t i = 0; i < stats::kFeedbackBlock; ++i) {
                target[i][lane] = w[i * stats::kLanes + lane] - scale * shift[i][lane];
            }
        }
        const BlockLanes& error = search(block, target, feedback.metric(block));
        for (size_t at = 0; at < kBlockLanes; ++at) {
            const float from = feedback.errors_from_target() ? 0.0F : flat(target)[at] - w[at];
            e[at] = flat(error)[at] + from;
        }
        feedback.commit(block, e, state);
    }
}

/// Chooses block after block again, all others fixed; all errors are in the state. e'Ŝe never grows where
/// `search` has what is there among its candidates.
template <typename Search>
void revise_blocks(const stats::Feedback& joint, size_t blocks, const float* w, float* e, float* state,
                   const Search& search) {
    BlockLanes shift;
    BlockLanes target;
    BlockLanes taken;
    for (size_t block = 0; block < blocks; ++block, w += kBlockLanes, e += kBlockLanes) {
        for (size_t at = 0; at < kBlockLanes; ++at) {
            flat(taken)[at] = -e[at];
        }
        joint.commit(block, flat(taken), state);
        joint.shift(block, state, flat(shift));
        for (size_t at = 0; at < kBlockLanes; ++at) {
            flat(target)[at] = w[at] - flat(shift)[at];
        }
        const BlockLanes& error = search(block, target, joint.metric(block));
        for (size_t at = 0; at < kBlockLanes; ++at) {
            e[at] = flat(error)[at] - flat(shift)[at];
        }
        joint.commit(block, e, state);
    }
}

}  // namespace kaiju::codec
