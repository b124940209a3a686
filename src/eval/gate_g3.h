// Gate G3: is an artifact of encoder v3 good enough to be shipped? (docs/evaluation.md)
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "eval/gate.h"

namespace kaiju::eval {

/// An artifact as the gate sees it: its file, and how to run it.
struct G3Artifact {
    const format::ModelFile* file = nullptr;
    std::function<std::unique_ptr<runtime::Engine>()> load{};
};

struct G3Options {
    std::string_view text{};
    std::string text_name = "the text";  ///< what messages call it
    std::string qspec_name{};            ///< what messages call the qspec; empty: by its id alone
    std::vector<uint32_t> ctx{512};      ///< each is measured and judged
    std::optional<uint64_t> chunks{};
    double ppl_max = 0;  ///< limits of v3 at the first context, both positive: there is no ship-always
    double kl_max = 0;
    double ppl_slack = 0.02;   ///< v3 may have this much more perplexity than IQ, as a part of it
    double kl_slack = 0.05;    ///< the same for the mean divergence
    double size_slack = 0.02;  ///< v3 may have this many more linear bits than IQ, as a part
    int threads = 0;
};

/// One artifact's figures at one context.
struct G3Figures {
    uint32_t ctx = 0;
    Perplexity v3{};
    Perplexity v1{};
    std::optional<Perplexity> iq{};
};

struct G3Result {
    bool pass = false;
    std::vector<std::string> failures{};
    GateResult argmax{};  ///< of v3, with mode require
    std::vector<G3Figures> figures{};
    Bits v3_bits{};
    Bits v1_bits{};
    std::optional<Bits> iq_bits{};
};

/// Runs the gate: the argmax gate on v3 first (a collapse of the expected token fails at once, and nothing
/// else is measured), then perplexity and divergence of v3, v1 and, if given, an IQ artifact against the
/// reference at each context. Passes where v3 keeps its limits, is better than v1 in both figures, and is
/// within the slack of the IQ artifact, which must not be the smaller file per linear weight by more than
/// size_slack. One model beside the reference is loaded at a time. Throws usage for limits or slacks that are
/// not positive numbers, and what run_gate and measure_perplexity throw.
[[nodiscard]] G3Result run_g3(const format::Qspec& qspec, const G3Artifact& v3, const G3Artifact& v1,
                              const G3Artifact* iq, const runtime::Engine& reference,
                              const G3Options& options, Monitor& monitor);

[[nodiscard]] nlohmann::json to_json(const format::Qspec& qspec, const G3Options& options,
                                     const G3Result& result);

}  // namespace kaiju::eval
