// Gates G0 and G1: is the diagonal a bad proxy of what quantisation costs, and is a sketch a better one?
// (docs/evaluation.md)
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "eval/scores.h"
#include "eval/sketch_check.h"

namespace kaiju::eval {

/// Two artifacts' scores of the same tensors, in one order.
struct ScorePair {
    std::vector<TensorScore> kaiju{};
    std::vector<TensorScore> iq{};
};

/// The IQ2 or IQ3 type that most weights of an artifact are stored at; empty where it has none.
/// llama-quantize falls back to other types where rows do not divide into 256, so that the file's name says
/// little.
[[nodiscard]] std::string main_iq_type(std::span<const TensorScore> scores);

/// The pairs that may be compared: KAIJU wires on one side, `iq_type` on the other ("any": any other type).
[[nodiscard]] ScorePair comparable(const ScorePair& all, const std::string& iq_type);

/// Sums of a group of tensors.
struct ExcessSums {
    size_t tensors = 0;
    uint64_t weights = 0;
    double kaiju = 0;
    double iq = 0;
    /// kaiju / iq.
    [[nodiscard]] double ratio() const { return iq > 0 ? kaiju / iq : 0; }
};

struct G0Result {
    bool pass = false;
    std::string reason{};
    ExcessSums diag{};
    std::map<std::string, ExcessSums> roles{};  ///< "ffn_down" and so on
    std::vector<std::string> bad_roles{};       ///< where KAIJU has the larger diagonal excess
};

/// Passes where KAIJU has the smaller sum of diagonal excess and yet the larger perplexity: then the diagonal
/// is proven a bad proxy. Otherwise the reason names the families of tensors that are bad on the diagonal.
/// Without perplexities it cannot pass.
[[nodiscard]] G0Result judge_g0(const ScorePair& pair, std::optional<double> kaiju_ppl,
                                std::optional<double> iq_ppl);

struct G1Result {
    bool pass = false;
    std::string reason{};
    size_t top = 0;                  ///< tensors judged
    ExcessSums diag{};               ///< over them
    std::vector<ExcessSums> full{};  ///< the same in the metric of the sketch, per K
    std::vector<size_t> shown{};     ///< per K: of the judged, those that show the pattern one by one
    std::vector<std::string> disagreeing_taps{};
};

/// Judges the tensors that carry `share` of KAIJU's excess in the last K's metric, the largest first. Passes
/// where every tap agrees with the importance matrix and where, summed over these tensors, the ratio of the
/// diagonal excess KAIJU / IQ is below 1 while that of the full excess is above 1 for every K.
[[nodiscard]] G1Result judge_g1(const ScorePair& pair, std::span<const TapAgreement> taps, double share);

}  // namespace kaiju::eval
