#include "eval/report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace kaiju::eval {

using nlohmann::json;

json perplexity_json(const Perplexity& perplexity) {
    json answer = {{"ppl", perplexity.ppl},       {"ppl_error", perplexity.ppl_error},
                   {"tokens", perplexity.tokens}, {"chunks", perplexity.chunks},
                   {"mean_kl", nullptr},          {"median_kl", nullptr},
                   {"p99_kl", nullptr},           {"same_top", nullptr},
                   {"ppl_ratio", nullptr}};
    if (const auto& divergence = perplexity.divergence) {
        answer.update({{"mean_kl", divergence->mean_kl},
                       {"mean_kl_error", divergence->mean_kl_error},
                       {"median_kl", divergence->median_kl},
                       {"p99_kl", divergence->p99_kl},
                       {"max_kl", divergence->max_kl},
                       {"same_top", divergence->same_top},
                       {"ppl_ratio", divergence->ppl_ratio},
                       {"ppl_ratio_error", divergence->ppl_ratio_error},
                       {"reference_ppl", divergence->reference_ppl},
                       {"reference_ppl_error", divergence->reference_ppl_error}});
    }
    return answer;
}

json bits_json(const Bits& bits) {
    return {{"linear_bits", bits.linear ? json(*bits.linear) : json(nullptr)}, {"file_bits", bits.file}};
}

std::string to_text(const Perplexity& perplexity) {
    std::string text =
        fmt::format("perplexity         {:.4f} +/- {:.5f} ({} tokens of {} chunks)\n", perplexity.ppl,
                    perplexity.ppl_error, perplexity.tokens, perplexity.chunks);
    if (const auto& divergence = perplexity.divergence) {
        text += fmt::format(
            "reference          {:.4f} +/- {:.5f}\n"
            "ratio              {:.5f} +/- {:.5f}\n"
            "mean divergence    {:.6f} +/- {:.6f} nats\n"
            "median, 99 %, max  {:.6f}, {:.6f}, {:.6f} nats\n"
            "same top token     {:.3f} %\n",
            divergence->reference_ppl, divergence->reference_ppl_error, divergence->ppl_ratio,
            divergence->ppl_ratio_error, divergence->mean_kl, divergence->mean_kl_error,
            divergence->median_kl, divergence->p99_kl, divergence->max_kl, 100 * divergence->same_top);
    }
    return text;
}

std::string to_text(const Bits& bits) {
    return fmt::format("bits per weight    {} linear, {:.4f} of the file\n",
                       bits.linear ? fmt::format("{:.4f}", *bits.linear) : "no", bits.file);
}

}  // namespace kaiju::eval
