// The choice of the next token.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "runtime/engine.h"

namespace kaiju::runtime {

struct SamplerOptions {
    float temperature = 0;  ///< 0: the most likely token (greedy), ties to the lower id
    uint32_t seed = 0;      ///< the same seed gives the same text
    int32_t top_k = 40;     ///< keep the k most likely (0: all); not used when greedy
    float top_p = 0.95F;    ///< keep the smallest set with this probability; not used when greedy
    float min_p = 0;  ///< drop what is less likely than this share of the likeliest; not used when greedy
    float repeat_penalty = 1;     ///< logits of tokens seen lately are divided by it (negative: multiplied)
    uint32_t repeat_window = 64;  ///< how many tokens "lately" is
};

/// Chooses tokens with llama.cpp's samplers, from the logits of any engine.
class Sampler {
  public:
    /// Throws usage for the seed 2^32 - 1, a negative temperature, a top_p outside (0, 1], a min_p outside
    /// [0, 1), or a penalty that is not positive.
    explicit Sampler(const SamplerOptions& options);
    ~Sampler();
    Sampler(const Sampler&) = delete;
    Sampler& operator=(const Sampler&) = delete;

    /// Chooses a token, and remembers it for the penalty.
    [[nodiscard]] Token sample(std::span<const float> logits);
    /// Remembers a token that was not chosen here (of the prompt).
    void remember(Token token);

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace kaiju::runtime
