#include "runtime/sampler.h"

#include <fmt/format.h>
#include <llama-cpp.h>

#include <algorithm>
#include <vector>

#include "base/error.h"

namespace kaiju::runtime {

struct Sampler::State {
    llama_sampler_ptr chain;
    std::vector<llama_token_data> candidates;
};

Sampler::Sampler(const SamplerOptions& options) : state_(std::make_unique<State>()) {
    if (!(options.temperature >= 0) || !(options.top_p > 0 && options.top_p <= 1) || options.top_k < 0) {
        throw Error(ErrorCode::usage,
                    fmt::format("temperature {}, top-k {}, top-p {}: the temperature and k are at least 0, "
                                "p lies in (0, 1]",
                                options.temperature, options.top_k, options.top_p));
    }
    if (options.temperature == 0) {
        return;
    }
    llama_sampler* chain = llama_sampler_chain_init(llama_sampler_chain_default_params());
    state_->chain.reset(chain);
    llama_sampler_chain_add(chain, llama_sampler_init_top_k(options.top_k));
    llama_sampler_chain_add(chain, llama_sampler_init_top_p(options.top_p, 1));
    llama_sampler_chain_add(chain, llama_sampler_init_temp(options.temperature));
    llama_sampler_chain_add(chain, llama_sampler_init_dist(options.seed));
}

Sampler::~Sampler() = default;

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
    llama_sampler_accept(state_->chain.get(), token);
    return token;
}

}  // namespace kaiju::runtime
