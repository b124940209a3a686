#include "runtime/sampler.h"

#include <fmt/format.h>
#include <llama-cpp.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"

namespace kaiju::runtime {

struct Sampler::State {
    llama_sampler_ptr chain;  ///< none where the likeliest token is taken as it is
    std::vector<llama_token_data> candidates;
};

Sampler::Sampler(const SamplerOptions& options) : state_(std::make_unique<State>()) {
    if (!(options.temperature >= 0) || !(options.top_p > 0 && options.top_p <= 1) || options.top_k < 0 ||
        !(options.min_p >= 0 && options.min_p < 1)) {
        throw Error(ErrorCode::usage,
                    fmt::format("temperature {}, top-k {}, top-p {}, min-p {}: the temperature and k are at "
                                "least 0, top-p lies in (0, 1], min-p in [0, 1)",
                                options.temperature, options.top_k, options.top_p, options.min_p));
    }
    if (options.seed == LLAMA_DEFAULT_SEED) {
        throw Error(ErrorCode::usage,
                    fmt::format("seed {}: to llama.cpp it means another one every time", options.seed));
    }
    if (!(options.repeat_penalty > 0) || !std::isfinite(options.repeat_penalty)) {
        throw Error(ErrorCode::usage,
                    fmt::format("repetition penalty {}: must be positive (1: none)", options.repeat_penalty));
    }
    if (options.temperature == 0 && options.repeat_penalty == 1) {
        return;
    }
    llama_sampler* chain = llama_sampler_chain_init(llama_sampler_chain_default_params());
    state_->chain.reset(chain);
    // The size of the vocabulary matters to samplers on other devices only.
    llama_sampler_chain_add(chain,
                            llama_sampler_init_penalties(0, static_cast<int32_t>(options.repeat_window),
                                                         options.repeat_penalty, 0, 0));
    if (options.temperature == 0) {
        llama_sampler_chain_add(chain, llama_sampler_init_greedy());
        return;
    }
    llama_sampler_chain_add(chain, llama_sampler_init_top_k(options.top_k));
    llama_sampler_chain_add(chain, llama_sampler_init_top_p(options.top_p, 1));
    llama_sampler_chain_add(chain, llama_sampler_init_min_p(options.min_p, 1));
    llama_sampler_chain_add(chain, llama_sampler_init_temp(options.temperature));
    llama_sampler_chain_add(chain, llama_sampler_init_dist(options.seed));
}

Sampler::~Sampler() = default;

void Sampler::remember(Token token) {
    if (state_->chain) {
        llama_sampler_accept(state_->chain.get(), token);
    }
}

Token Sampler::sample(std::span<const float> logits) {
    if (!state_->chain) {
        return static_cast<Token>(std::ranges::max_element(logits) - logits.begin());
    }
    state_->candidates.resize(logits.size());
    for (size_t i = 0; i < logits.size(); ++i) {
        state_->candidates[i] = {.id = static_cast<Token>(i), .logit = logits[i], .p = 0};
    }
    llama_token_data_array array = {
        .data = state_->candidates.data(), .size = logits.size(), .selected = -1, .sorted = false};
    llama_sampler_apply(state_->chain.get(), &array);
    const Token token = array.data[array.selected].id;
    remember(token);
    return token;
}

}  // namespace kaiju::runtime
