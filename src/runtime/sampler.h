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
};

/// Chooses tokens with llama.cpp's samplers, from the logits of any engine.
class Sampler {
  public:
    /// Throws usage for a negative temperature or a top_p outside (0, 1].
    explicit Sampler(const SamplerOptions& options);
    ~Sampler();
    Sampler(const Sampler&) = delete;
    Sampler& operator=(const Sampler&) = delete;

    [[nodiscard]] Token sample(std::span<const float> logits);

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace kaiju::runtime
