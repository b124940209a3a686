// Text out of a model.
#pragma once

#include <functional>

#include "runtime/engine.h"
#include "runtime/sampler.h"

namespace kaiju::runtime {

struct GenerateOptions {
    uint32_t max_tokens = 64;
    SamplerOptions sampler{};
    int threads = 0;  ///< 0: all processors of this process
    /// Called with the bytes of each new token (perhaps part of a character); false stops.
    std::function<bool(std::string_view piece)> on_piece{};
    const Monitor* monitor = nullptr;
};

struct Generated {
    std::vector<Token> tokens;  ///< the new ones, without the one that ended the text
    std::string text;
    bool ended = false;  ///< the model ended the text itself
};

/// Continues `prompt` (token ids, not empty). Throws bad_input for ids outside the vocabulary.
[[nodiscard]] Generated generate(const Engine& engine, std::span<const Token> prompt,
                                 const GenerateOptions& options);

}  // namespace kaiju::runtime
