#include "eval/chunks.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace kaiju::eval {

using runtime::Token;

ChunkPlan plan_chunks(uint32_t ctx) {
    constexpr uint32_t kBatch = 2048;
    constexpr uint32_t kMin = 16;
    constexpr uint32_t kMax = uint32_t{1} << 20;
    if (ctx < kMin || ctx > kMax) {
        throw Error(ErrorCode::usage,
                    fmt::format("a context of {} tokens: choose {} to {}", ctx, kMin, kMax));
    }
    const uint32_t n_seq = std::max<uint32_t>(1, kBatch / ctx);
    return {.ctx = ctx, .n_seq = n_seq, .n_batch = std::min(kBatch, n_seq * ctx)};
}

std::vector<Token> tokenize_text(const runtime::Engine& engine, std::string_view text, uint32_t ctx) {
    if (engine.appends_eos()) {
        throw Error(ErrorCode::bad_input,
                    "the model's tokenizer ends every text with an EOS token; perplexity over chunks is not "
                    "defined for it");
    }
    if (!text.empty() && text.back() == '\n') {
        text.remove_suffix(1);
    }
    std::vector<Token> tokens = engine.tokenize(text, true, false);
    if (tokens.size() < 2 * size_t{ctx}) {
        throw Error(
            ErrorCode::bad_input,
            fmt::format(
                "the text has {} tokens, and a context of {} needs at least {}: use a longer text or a "
                "smaller context",
                tokens.size(), ctx, 2 * size_t{ctx}));
    }
    return tokens;
}

std::string text_of(const runtime::Engine& engine, std::span<const Token> tokens) {
    std::string text;
    for (const Token token : tokens) {
        text += engine.piece(token, false);
    }
    return text;
}

ChunkRunner::ChunkRunner(const runtime::Engine& engine, const ChunkPlan& plan, uint32_t first_logit,
                         int threads, const Monitor* monitor, runtime::ActivationTap* tap)
    : engine_(engine),
      plan_(plan),
      first_logit_(first_logit),
      context_(engine.make_context({.n_ctx = plan.ctx,
                                    .n_seq = plan.n_seq,
                                    .n_batch = plan.n_batch,
                                    .threads = threads,
                                    .tap = tap,
                                    .monitor = monitor})) {}

std::span<const float> ChunkRunner::evaluate(std::span<const Token> tokens, size_t first, size_t count) {
    context_->clear();
    if (plan_.ctx <= plan_.n_batch) {
        return evaluate_part(tokens, first, count, 0, plan_.ctx);
    }
    logits_.clear();
    for (uint32_t begin = 0; begin < plan_.ctx; begin += plan_.n_batch) {
        const auto part =
            evaluate_part(tokens, first, count, begin, std::min(begin + plan_.n_batch, plan_.ctx));
        logits_.insert(logits_.end(), part.begin(), part.end());
    }
    return logits_;
}

/// Positions begin .. end-1 of each of the chunks, in one call.
std::span<const float> ChunkRunner::evaluate_part(std::span<const Token> tokens, size_t first, size_t count,
                                                  uint32_t begin, uint32_t end) {
    batch_.clear();
    const std::optional<Token> leading = engine_.leading_token();
    for (size_t chunk = 0; chunk < count; ++chunk) {
        const auto chunk_tokens = tokens.subspan((first + chunk) * plan_.ctx, plan_.ctx);
        for (uint32_t position = begin; position < end; ++position) {
            const Token token = position == 0 && leading ? *leading : chunk_tokens[position];
            batch_.push_back({.token = token,
                              .position = static_cast<int32_t>(position),
                              .sequence = static_cast<int32_t>(chunk),
                              .logits = position >= first_logit_});
        }
    }
    return context_->evaluate(batch_);
}

}  // namespace kaiju::eval
