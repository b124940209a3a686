// Probabilities from logits, in the precision of llama.cpp's perplexity program: exponentials in f32, sums in
// f64.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kaiju::eval {

/// What one row of logits needs for its log-probabilities.
struct SoftmaxRow {
    float max = 0;       ///< largest logit
    int32_t argmax = 0;  ///< its index, the lowest of equals
    double log_sum = 0;  ///< log of the sum of exp(logit - max)

    /// log p of an element with this logit.
    [[nodiscard]] double log_probability(float logit) const {
        return static_cast<double>(logit - max) - log_sum;
    }
};

/// Row statistics of n >= 1 finite logits (minus infinity is allowed: probability 0).
[[nodiscard]] SoftmaxRow softmax_row(std::span<const float> logits);

/// The same, keeping exp(logit - max) of each element in `exponentials` (resized).
[[nodiscard]] SoftmaxRow softmax_row(std::span<const float> logits, std::vector<float>& exponentials);

/// Kullback-Leibler divergence Σ p (log p - log q) in nats, p from `reference` (whose exponentials are
/// given), q from `model`. All terms are summed, where llama.cpp leaves out p < exp(-16); exactly 0 for equal
/// rows.
[[nodiscard]] double kl_divergence(std::span<const float> reference, const SoftmaxRow& reference_row,
                                   std::span<const float> reference_exponentials,
                                   std::span<const float> model, const SoftmaxRow& model_row);

/// 1 + the number of elements above logits[index], or equal to it with a lower index: 1 is the argmax.
[[nodiscard]] uint64_t rank_of(std::span<const float> logits, size_t index);

/// Indices of the `count` largest elements (or all), in the order of their ranks.
[[nodiscard]] std::vector<int32_t> top_tokens(std::span<const float> logits, size_t count);

}  // namespace kaiju::eval
