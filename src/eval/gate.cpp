#include "eval/gate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "codec/scope.h"
#include "eval/log_softmax.h"
#include "eval/report.h"
#include "format/key_values.h"

namespace kaiju::eval {

namespace {

using nlohmann::json;
using runtime::Token;

TokenStanding standing(std::span<const float> logits, Token token) {
    const auto index = static_cast<size_t>(token);
    return {.token = token, .logit = logits[index], .rank = rank_of(logits, index)};
}

/// A qspec that cannot gate this model is a prerequisite that is not there, whatever is wrong with it.
void require_ready(const format::Qspec& qspec, const runtime::Engine& model, const std::string& name) {
    try {
        format::check_gate_ready(qspec, model.vocabulary_size());
    } catch (const Error& error) {
        throw Error(ErrorCode::missing,
                    fmt::format("{}{}not gate-ready: {}", name, name.empty() ? "" : ": ", error.what()));
    }
}

void require_limits(const GateOptions& options, const runtime::Engine* reference) {
    for (const auto& limit : {options.ppl_max, options.kl_max}) {
        if (limit && !(std::isfinite(*limit) && *limit > 0)) {
            throw Error(ErrorCode::usage, fmt::format("a limit of {}: limits are positive numbers", *limit));
        }
    }
    if ((options.ppl_max || options.kl_max || reference != nullptr) && !options.text) {
        throw Error(ErrorCode::usage, "a limit or a reference needs a text to measure on");
    }
    if (options.kl_max && reference == nullptr) {
        throw Error(ErrorCode::usage, "a limit on the divergence needs a reference");
    }
}

void judge_argmax(GateResult& result, ArgmaxMode mode) {
    if (!result.finite) {
        result.failures.emplace_back("the logits after the prompt are not finite numbers");
        return;
    }
    std::vector<std::string>& verdicts = mode == ArgmaxMode::require ? result.failures : result.remarks;
    if (result.expect.rank > kCollapseRank) {
        result.failures.push_back(fmt::format("collapse: token {} has fallen to rank {} (more than {})",
                                              result.expect.token, result.expect.rank, kCollapseRank));
    } else if (result.expect.rank != 1) {
        verdicts.push_back(fmt::format("argmax is token {}; token {} has rank {}, margin {:.4f}",
                                       result.argmax, result.expect.token, result.expect.rank,
                                       result.margin));
    }
    if (result.reject.rank < result.expect.rank) {
        verdicts.push_back(fmt::format("token {}, which must rank below token {}, has rank {}",
                                       result.reject.token, result.expect.token, result.reject.rank));
    }
}

// Written so that a value that is not a number fails.
void judge_limits(GateResult& result, const GateOptions& options) {
    if (options.ppl_max && !(result.perplexity->ppl <= *options.ppl_max)) {
        result.failures.push_back(
            fmt::format("perplexity {:.4f} is above the limit {}", result.perplexity->ppl, *options.ppl_max));
    }
    if (options.kl_max && !(result.perplexity->divergence->mean_kl <= *options.kl_max)) {
        result.failures.push_back(fmt::format("mean divergence {:.5f} is above the limit {}",
                                              result.perplexity->divergence->mean_kl, *options.kl_max));
    }
}

}  // namespace

void require_scope(const format::ModelFile& file) {
    const format::KeyValues key_values(file.key_values());
    if (const auto reason = codec::out_of_scope(key_values, file.tensors())) {
        throw Error(ErrorCode::missing, fmt::format("{}: not gate-ready: {}", file.path().string(), *reason));
    }
}

Minted mint_gate(const format::ModelFile& file, const runtime::Engine& model, const MintOptions& options,
                 const Monitor& monitor) {
    if (!format::is_model_id(options.id)) {
        throw Error(
            ErrorCode::usage,
            fmt::format("id \"{}\": 1 to 64 of a-z 0-9 . _ -, the first a letter or a digit", options.id));
    }
    if (!(options.min_margin >= 0)) {
        throw Error(ErrorCode::usage,
                    fmt::format("a margin of {}: it must be 0 or more", options.min_margin));
    }
    require_scope(file);
    const std::vector<Token> prompt = model.tokenize(options.prompt, true, true);
    const std::vector<float> logits = runtime::last_logits(model, prompt, options.threads, &monitor);
    runtime::require_finite(logits);

    const std::vector<int32_t> best = top_tokens(logits, 2);
    Minted minted;
    minted.expect = standing(logits, best.at(0));
    minted.second = standing(logits, best.at(1));
    if (options.reject_token) {
        model.require_tokens(std::span(&*options.reject_token, 1));
        if (*options.reject_token == minted.expect.token) {
            throw Error(ErrorCode::usage, fmt::format("token {} is the model's answer and cannot be rejected",
                                                      *options.reject_token));
        }
    }
    minted.reject = standing(logits, options.reject_token.value_or(minted.second.token));
    minted.margin = static_cast<double>(minted.expect.logit) - static_cast<double>(minted.reject.logit);
    minted.refused = minted.margin < options.min_margin;

    minted.qspec.id = options.id;
    minted.qspec.family = model.architecture();
    minted.qspec.prompt = options.prompt;
    minted.qspec.prompt_tokens.assign(prompt.begin(), prompt.end());
    minted.qspec.expect_token = static_cast<uint32_t>(minted.expect.token);
    minted.qspec.reject_token = static_cast<uint32_t>(minted.reject.token);
    require_ready(minted.qspec, model, "");
    return minted;
}

GateResult run_gate(const format::Qspec& qspec, const format::ModelFile& file, const runtime::Engine& model,
                    const runtime::Engine* reference, const GateOptions& options, Monitor& monitor) {
    require_limits(options, reference);
    require_scope(file);
    require_ready(qspec, model, options.qspec_name);
    const std::vector<Token> prompt(qspec.prompt_tokens.begin(), qspec.prompt_tokens.end());
    const std::vector<float> logits = runtime::last_logits(model, prompt, options.threads, &monitor);

    GateResult result;
    result.bits = measure_bits(file);
    result.finite = runtime::all_finite(logits);
    if (result.finite) {
        const std::vector<int32_t> best = top_tokens(logits, 2);
        result.argmax = best.at(0);
        result.expect = standing(logits, static_cast<Token>(qspec.expect_token));
        result.reject = standing(logits, static_cast<Token>(qspec.reject_token));
        const Token rival = best.at(0) == result.expect.token ? best.at(1) : best.at(0);
        result.margin = static_cast<double>(result.expect.logit) -
                        static_cast<double>(logits[static_cast<size_t>(rival)]);
    }
    judge_argmax(result, options.argmax);
    if (result.finite && options.text) {
        result.perplexity = measure_perplexity(model, reference, *options.text, options.perplexity, monitor);
        judge_limits(result, options);
    }
    result.pass = result.failures.empty();
    return result;
}

json to_json(const format::Qspec& qspec, const GateOptions& options, const GateResult& result) {
    const auto maybe = [](const std::optional<double>& value) {
        return value ? json(*value) : json(nullptr);
    };
    json answer = {{"pass", result.pass},
                   {"id", qspec.id},
                   {"failures", result.failures},
                   {"remarks", result.remarks},
                   {"argmax_mode", options.argmax == ArgmaxMode::require ? "require" : "report"},
                   {"expect_token", qspec.expect_token},
                   {"reject_token", qspec.reject_token},
                   {"limits", {{"ppl_max", maybe(options.ppl_max)}, {"kl_max", maybe(options.kl_max)}}}};
    answer.update(bits_json(result.bits));
    if (result.finite) {
        answer.update({{"argmax", result.argmax},
                       {"rank", result.expect.rank},
                       {"margin", result.margin},
                       {"expect_logit", result.expect.logit},
                       {"reject_logit", result.reject.logit},
                       {"reject_rank", result.reject.rank}});
    }
    if (result.perplexity) {
        answer.update(perplexity_json(*result.perplexity));
        answer["ctx"] = options.perplexity.ctx;
    }
    return answer;
}

std::string to_log(const format::Qspec& qspec, const GateOptions& options, const GateResult& result) {
    std::string log =
        fmt::format("gate {}\nprompt tokens {}\n", qspec.id, fmt::join(qspec.prompt_tokens, " "));
    if (result.finite) {
        log += fmt::format(
            "argmax {}\nexpect {} rank {} logit {:.4f} margin {:.4f}\nreject {} rank {} logit {:.4f}\n",
            result.argmax, result.expect.token, result.expect.rank, result.expect.logit, result.margin,
            result.reject.token, result.reject.rank, result.reject.logit);
    }
    log += fmt::format("argmax mode {}\n", options.argmax == ArgmaxMode::require ? "require" : "report");
    if (options.ppl_max) {
        log += fmt::format("limit ppl {}\n", *options.ppl_max);
    }
    if (options.kl_max) {
        log += fmt::format("limit mean kl {}\n", *options.kl_max);
    }
    if (result.perplexity) {
        log += to_text(*result.perplexity);
    }
    log += to_text(result.bits);
    for (const std::string& remark : result.remarks) {
        log += fmt::format("remark: {}\n", remark);
    }
    for (const std::string& failure : result.failures) {
        log += fmt::format("failure: {}\n", failure);
    }
    return log + (result.pass ? "PASS\n" : "FAIL\n");
}

}  // namespace kaiju::eval
