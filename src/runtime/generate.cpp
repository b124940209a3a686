#include "runtime/generate.h"

#include "base/error.h"

namespace kaiju::runtime {

Generated generate(const Engine& engine, std::span<const Token> prompt, const GenerateOptions& options) {
    if (prompt.empty()) {
        throw Error(ErrorCode::usage, "an empty prompt: give at least one token");
    }
    engine.require_tokens(prompt);
    const auto length = static_cast<uint32_t>(prompt.size());
    const auto context = engine.make_context(
        {.n_ctx = length + options.max_tokens, .threads = options.threads, .monitor = options.monitor});
    Sampler sampler(options.sampler);
    std::vector<BatchToken> batch(prompt.size());
    for (size_t i = 0; i < prompt.size(); ++i) {
        batch[i] = {
            .token = prompt[i], .position = static_cast<int32_t>(i), .logits = i + 1 == prompt.size()};
    }

    Generated result;
    while (result.tokens.size() < options.max_tokens) {
        const Token token = sampler.sample(context->evaluate(batch));
        if (engine.ends_generation(token)) {
            result.ended = true;
            break;
        }
        const std::string piece = engine.piece(token, false);
        result.tokens.push_back(token);
        result.text += piece;
        if (options.on_piece && !options.on_piece(piece)) {
            break;
        }
        batch = {{.token = token,
                  .position = static_cast<int32_t>(length + result.tokens.size() - 1),
                  .logits = true}};
    }
    return result;
}

}  // namespace kaiju::runtime
