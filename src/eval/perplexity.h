// Perplexity, and the divergence from a reference model (docs/evaluation.md).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/monitor.h"
#include "runtime/engine.h"

namespace kaiju::eval {

struct PerplexityOptions {
    uint32_t ctx = 512;
    std::optional<uint64_t> chunks{};  ///< at most this many; nothing: all of the text
    int threads = 0;                   ///< 0: all processors of this process
    // What messages call them.
    std::string text_name = "the text";
    std::vector<std::string> model_names{};  ///< of the models, in order; "the model" where there is none
    std::string reference_name = "the reference";
};

/// How a model's predictions differ from a reference's, over the scored tokens. Divergences in nats, p the
/// reference.
struct Divergence {
    double mean_kl = 0;
    double mean_kl_error = 0;  ///< standard error of the mean
    double median_kl = 0;
    double p99_kl = 0;  ///< 99th percentile, linear between neighbours
    double max_kl = 0;
    double same_top = 0;  ///< share of tokens where both have the same most likely token, 0..1
    double reference_ppl = 0;
    double reference_ppl_error = 0;
    double ppl_ratio = 0;        ///< ppl / reference_ppl
    double ppl_ratio_error = 0;  ///< standard error, from the paired differences of log-probability
};

struct Perplexity {
    double ppl = 0;
    double ppl_error = 0;  ///< standard error: that of the mean log-probability, times ppl
    uint64_t tokens = 0;   ///< scored tokens: ctx - ctx/2 - 1 per chunk
    uint64_t chunks = 0;
    std::optional<Divergence> divergence;
    std::string evaluated_text;  ///< the part of the text that the chunks cover
};

/// Measures over the first chunks of a text, exactly as llama.cpp's llama-perplexity does: the text is cut
/// into chunks of ctx tokens, each evaluated alone, and the tokens of its second half are scored. With a
/// reference both models run over the same chunks, a few at a time; nothing is written to disk. Throws
/// bad_input where the text is too short, or the reference has another vocabulary or tokenises differently.
[[nodiscard]] Perplexity measure_perplexity(const runtime::Engine& model, const runtime::Engine* reference,
                                            std::string_view text, const PerplexityOptions& options,
                                            Monitor& monitor);

/// The same for several models of one tokenizer side by side, so that the reference runs once for all of
/// them.
[[nodiscard]] std::vector<Perplexity> measure_perplexities(std::span<const runtime::Engine* const> models,
                                                           const runtime::Engine* reference,
                                                           std::string_view text,
                                                           const PerplexityOptions& options,
                                                           Monitor& monitor);

}  // namespace kaiju::eval
