#include "eval/gate_g3.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "eval/report.h"

namespace kaiju::eval {

using nlohmann::json;

namespace {

void check(const G3Options& options) {
    for (const double limit : {options.ppl_max, options.kl_max}) {
        if (!(std::isfinite(limit) && limit > 0)) {
            throw Error(
                ErrorCode::usage,
                fmt::format("a limit of {}: G3 wants --ppl-max and --kl-max, positive numbers", limit));
        }
    }
    for (const double slack : {options.ppl_slack, options.kl_slack, options.size_slack}) {
        if (!(std::isfinite(slack) && slack >= 0)) {
            throw Error(ErrorCode::usage, fmt::format("a slack of {}: it must be 0 or more", slack));
        }
    }
    if (options.ctx.empty()) {
        throw Error(ErrorCode::usage, "G3 wants a context to measure at");
    }
}

// Written so that a value that is not a number fails.
void require_below(std::vector<std::string>& failures, double value, double limit, bool equal_passes,
                   const std::string& sentence) {
    if (!(equal_passes ? value <= limit : value < limit)) {
        failures.push_back(fmt::format("{}: {:.5g}, limit {:.5g}", sentence, value, limit));
    }
}

double kl_of(const Perplexity& measured) {
    return measured.divergence->mean_kl;
}

void judge(G3Result& result, const G3Figures& at, bool first, const G3Options& options) {
    const auto say = [&](std::string_view what) { return fmt::format("ctx {}: {}", at.ctx, what); };
    if (first) {
        require_below(result.failures, at.v3.ppl, options.ppl_max, true,
                      say("perplexity of v3 above ppl_max"));
        require_below(result.failures, kl_of(at.v3), options.kl_max, true,
                      say("mean divergence of v3 above kl_max"));
    }
    require_below(result.failures, at.v3.ppl, at.v1.ppl, false, say("perplexity of v3 not below v1's"));
    require_below(result.failures, kl_of(at.v3), kl_of(at.v1), false,
                  say("mean divergence of v3 not below v1's"));
    if (at.iq) {
        require_below(result.failures, at.v3.ppl, at.iq->ppl * (1 + options.ppl_slack), true,
                      say("perplexity of v3 beyond the slack of IQ"));
        require_below(result.failures, kl_of(at.v3), kl_of(*at.iq) * (1 + options.kl_slack), true,
                      say("mean divergence of v3 beyond the slack of IQ"));
    }
}

/// More bits than the artifact it is compared with would make the comparison meaningless.
void judge_size(G3Result& result, const G3Options& options) {
    if (result.v3_bits.linear && result.iq_bits && result.iq_bits->linear) {
        require_below(result.failures, *result.v3_bits.linear,
                      *result.iq_bits->linear * (1 + options.size_slack), true,
                      "linear bits of v3 beyond the slack of IQ: not of equal size");
    }
}

}  // namespace

G3Result run_g3(const format::Qspec& qspec, const G3Artifact& v3, const G3Artifact& v1, const G3Artifact* iq,
                const runtime::Engine& reference, const G3Options& options, Monitor& monitor) {
    check(options);
    G3Result result;
    result.v3_bits = measure_bits(*v3.file);
    result.v1_bits = measure_bits(*v1.file);
    if (iq != nullptr) {
        result.iq_bits = measure_bits(*iq->file);
    }
    result.figures.reserve(options.ctx.size());
    for (const uint32_t ctx : options.ctx) {
        result.figures.push_back({.ctx = ctx});
    }
    const auto measure = [&](const runtime::Engine& model, uint32_t ctx) {
        return measure_perplexity(model, &reference, options.text,
                                  {.ctx = ctx,
                                   .chunks = options.chunks,
                                   .threads = options.threads,
                                   .text_name = options.text_name},
                                  monitor);
    };
    {
        const auto model = v3.load();
        result.argmax = run_gate(qspec, *v3.file, *model, nullptr,
                                 {.threads = options.threads, .qspec_name = options.qspec_name}, monitor);
        result.failures = result.argmax.failures;
        if (!result.argmax.finite || result.argmax.expect.rank > kCollapseRank) {
            result.figures.clear();
            return result;
        }
        for (G3Figures& at : result.figures) {
            at.v3 = measure(*model, at.ctx);
        }
    }
    {
        const auto model = v1.load();
        for (G3Figures& at : result.figures) {
            at.v1 = measure(*model, at.ctx);
        }
    }
    if (iq != nullptr) {
        const auto model = iq->load();
        for (G3Figures& at : result.figures) {
            at.iq = measure(*model, at.ctx);
        }
    }
    for (const G3Figures& at : result.figures) {
        judge(result, at, &at == &result.figures.front(), options);
    }
    judge_size(result, options);
    result.pass = result.failures.empty();
    return result;
}

json to_json(const format::Qspec& qspec, const G3Options& options, const G3Result& result) {
    json figures = json::array();
    for (const G3Figures& at : result.figures) {
        json row = {{"ctx", at.ctx}, {"v3", perplexity_json(at.v3)}, {"v1", perplexity_json(at.v1)}};
        if (at.iq) {
            row["iq"] = perplexity_json(*at.iq);
        }
        figures.push_back(row);
    }
    json bits = {{"v3", bits_json(result.v3_bits)}, {"v1", bits_json(result.v1_bits)}};
    if (result.iq_bits) {
        bits["iq"] = bits_json(*result.iq_bits);
    }
    json answer = {
        {"gate", "G3"},
        {"pass", result.pass},
        {"id", qspec.id},
        {"failures", result.failures},
        {"limits", {{"ppl_max", options.ppl_max}, {"kl_max", options.kl_max}}},
        {"slack", {{"ppl", options.ppl_slack}, {"kl", options.kl_slack}, {"size", options.size_slack}}},
        {"bits", bits},
        {"figures", figures}};
    if (result.argmax.finite) {
        answer["argmax"] = {{"token", result.argmax.argmax},
                            {"expect_rank", result.argmax.expect.rank},
                            {"margin", result.argmax.margin}};
    }
    return answer;
}

}  // namespace kaiju::eval
