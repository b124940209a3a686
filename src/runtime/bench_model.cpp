#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <random>

#include "base/error.h"
#include "runtime/bench.h"

namespace kaiju::runtime {

namespace {

using Clock = std::chrono::steady_clock;

std::vector<BatchToken> random_tokens(uint32_t count, uint32_t vocabulary) {
    std::mt19937 random(1);
    std::vector<BatchToken> batch(count);
    for (uint32_t i = 0; i < count; ++i) {
        batch[i] = {.token = static_cast<Token>(random() % vocabulary),
                    .position = static_cast<int32_t>(i),
                    .logits = i + 1 == count};
    }
    return batch;
}

ModelTiming measure(std::string test, uint32_t tokens, uint32_t repetitions, const Monitor& monitor,
                    const std::function<void()>& run) {
    run();
    double sum = 0;
    double squares = 0;
    double best = 0;
    for (uint32_t i = 0; i < repetitions; ++i) {
        monitor.check_cancelled();
        const auto start = Clock::now();
        run();
        const double rate = tokens / std::chrono::duration<double>(Clock::now() - start).count();
        sum += rate;
        squares += rate * rate;
        best = std::max(best, rate);
    }
    const double mean = sum / repetitions;
    const double variance = repetitions > 1 ? (squares - repetitions * mean * mean) / (repetitions - 1) : 0;
    return {std::move(test), mean, std::sqrt(std::max(0.0, variance)), best};
}

}  // namespace

std::vector<ModelTiming> bench_model(const Engine& engine, const ModelBenchOptions& options,
                                     const Monitor& monitor) {
    if (options.prompt == 0 && options.generated == 0) {
        throw Error(ErrorCode::usage, "nothing to measure: neither prompt tokens nor generated ones");
    }
    const auto context = engine.make_context({.n_ctx = std::max(options.prompt, options.generated),
                                              .threads = options.threads,
                                              .monitor = &monitor});
    std::vector<ModelTiming> timings;
    if (options.prompt > 0) {
        const auto batch = random_tokens(options.prompt, engine.vocabulary_size());
        timings.push_back(
            measure(fmt::format("pp{}", options.prompt), options.prompt, options.repetitions, monitor, [&] {
                context->clear();
                require_finite(context->evaluate(batch));
            }));
    }
    if (options.generated > 0) {
        auto batch = random_tokens(options.generated, engine.vocabulary_size());
        timings.push_back(measure(fmt::format("tg{}", options.generated), options.generated,
                                  options.repetitions, monitor, [&] {
                                      context->clear();
                                      for (BatchToken& token : batch) {
                                          token.logits = true;
                                          require_finite(context->evaluate(std::span(&token, 1)));
                                      }
                                  }));
    }
    return timings;
}

}  // namespace kaiju::runtime
