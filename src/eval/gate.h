// The argmax gate: does the quantised model still give the answer that the full-precision model gave?
// (docs/qspec.md, docs/evaluation.md)
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/monitor.h"
#include "eval/bits.h"
#include "eval/perplexity.h"
#include "format/model_file.h"
#include "format/qspec.h"
#include "runtime/engine.h"

namespace kaiju::eval {

/// Where a token stands among the logits after a prompt.
struct TokenStanding {
    runtime::Token token = 0;
    float logit = 0;
    uint64_t rank = 0;  ///< 1 is the argmax; of equals the lower id ranks first
};

struct MintOptions {
    std::string id{};
    std::string prompt{};
    std::optional<runtime::Token> reject_token{};  ///< nothing: the second-best token
    double min_margin = 0.5;                       ///< logits between the best token and the rejected one
    int threads = 0;
};

struct Minted {
    format::Qspec qspec;
    TokenStanding expect;
    TokenStanding second;  ///< the best of the other tokens
    TokenStanding reject;
    double margin = 0;     ///< expect over reject, in logits
    bool refused = false;  ///< the margin is under the minimum: not to be used as a gate
};

/// Throws missing for a model outside the encoder's scope (codec/scope.h). To be asked before an engine loads
/// the model, which may fail for the same reason in other words.
void require_scope(const format::ModelFile& file);

/// Makes a qspec from a full-precision model: the argmax after the prompt, and the token it must beat.
/// Throws usage for an id or a reject_token that cannot be, missing where the architecture is outside the
/// encoder.
[[nodiscard]] Minted mint_gate(const format::ModelFile& file, const runtime::Engine& model,
                               const MintOptions& options, const Monitor& monitor);

/// What to do when expect_token is not the argmax: fail, or only record it.
enum class ArgmaxMode { require, report };

struct GateOptions {
    ArgmaxMode argmax = ArgmaxMode::require;
    std::optional<std::string_view> text{};  ///< measure perplexity on it
    std::optional<double> ppl_max{};         ///< needs a text
    std::optional<double> kl_max{};          ///< limit of the mean; needs a text and a reference
    PerplexityOptions perplexity{};
    int threads = 0;
    std::string qspec_name{};  ///< what messages call the qspec; empty: by its id alone
};

/// Ranks above this are a collapse: the model is broken, whatever the mode.
inline constexpr uint64_t kCollapseRank = 10;

struct GateResult {
    bool pass = false;
    std::vector<std::string> failures;  ///< why not, a sentence each
    std::vector<std::string> remarks;   ///< what would have failed in mode require
    bool finite = true;                 ///< whether the logits after the prompt are numbers
    runtime::Token argmax = 0;
    TokenStanding expect;
    TokenStanding reject;
    double margin = 0;  ///< logit of expect_token minus the best of the others; negative where it lost
    std::optional<Perplexity> perplexity;
    Bits bits;
};

/// Runs the gate. Perplexity is measured after the argmax, and not at all on a model whose logits are not
/// numbers. Throws missing where the qspec or the model is not ready for a gate, saying why; usage for limits
/// without the text or reference that they need, or that are not positive numbers.
[[nodiscard]] GateResult run_gate(const format::Qspec& qspec, const format::ModelFile& file,
                                  const runtime::Engine& model, const runtime::Engine* reference,
                                  const GateOptions& options, Monitor& monitor);

/// Everything of a run as one JSON object: the answer of `kaiju gate run --json`, and the telemetry file.
[[nodiscard]] nlohmann::json to_json(const format::Qspec& qspec, const GateOptions& options,
                                     const GateResult& result);

/// The gate log: the same for people, one finding a line, the verdict last.
[[nodiscard]] std::string to_log(const format::Qspec& qspec, const GateOptions& options,
                                 const GateResult& result);

}  // namespace kaiju::eval
