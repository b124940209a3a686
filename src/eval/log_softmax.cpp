#include "eval/log_softmax.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kaiju::eval {

namespace {

void find_max(std::span<const float> logits, SoftmaxRow& row) {
    row.max = logits[0];
    row.argmax = 0;
    for (size_t i = 1; i < logits.size(); ++i) {
        if (logits[i] > row.max) {
            row.max = logits[i];
            row.argmax = static_cast<int32_t>(i);
        }
    }
}

}  // namespace

SoftmaxRow softmax_row(std::span<const float> logits) {
    SoftmaxRow row;
    find_max(logits, row);
    double sum = 0;
    for (const float logit : logits) {
        sum += std::exp(logit - row.max);
    }
    row.log_sum = std::log(sum);
    return row;
}

SoftmaxRow softmax_row(std::span<const float> logits, std::vector<float>& exponentials) {
    SoftmaxRow row;
    find_max(logits, row);
    exponentials.resize(logits.size());
    double sum = 0;
    for (size_t i = 0; i < logits.size(); ++i) {
        exponentials[i] = std::exp(logits[i] - row.max);
        sum += exponentials[i];
    }
    row.log_sum = std::log(sum);
    return row;
}

// With a = reference, b = model: log p_i - log q_i = (a_i - b_i) + c, c the difference of the normalisers,
// which is a constant of the row. In f64 the subtraction is exact, so that equal rows give 0 and not rounding
// noise.
double kl_divergence(std::span<const float> reference, const SoftmaxRow& reference_row,
                     std::span<const float> reference_exponentials, std::span<const float> model,
                     const SoftmaxRow& model_row) {
    const double offset = (static_cast<double>(model_row.max) + model_row.log_sum) -
                          (static_cast<double>(reference_row.max) + reference_row.log_sum);
    double sum = 0;
    for (size_t i = 0; i < reference.size(); ++i) {
        if (reference_exponentials[i] > 0) {
            sum += reference_exponentials[i] *
                   ((static_cast<double>(reference[i]) - static_cast<double>(model[i])) + offset);
        }
    }
    return sum / std::exp(reference_row.log_sum);
}

uint64_t rank_of(std::span<const float> logits, size_t index) {
    uint64_t rank = 1;
    for (size_t i = 0; i < logits.size(); ++i) {
        rank += logits[i] > logits[index] || (logits[i] == logits[index] && i < index) ? 1 : 0;
    }
    return rank;
}

std::vector<int32_t> top_tokens(std::span<const float> logits, size_t count) {
    std::vector<int32_t> order(logits.size());
    std::iota(order.begin(), order.end(), 0);
    const auto end = order.begin() + static_cast<std::ptrdiff_t>(std::min(count, order.size()));
    std::partial_sort(order.begin(), end, order.end(), [&](int32_t a, int32_t b) {
        const float left = logits[static_cast<size_t>(a)];
        const float right = logits[static_cast<size_t>(b)];
        return left > right || (left == right && a < b);
    });
    order.erase(end, order.end());
    return order;
}

}  // namespace kaiju::eval
