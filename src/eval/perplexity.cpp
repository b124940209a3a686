#include "eval/perplexity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "base/error.h"
#include "base/parallel.h"
#include "eval/chunks.h"
#include "eval/log_softmax.h"

namespace kaiju::eval {

namespace {

using runtime::Token;

/// What is kept of one scored token.
struct Scored {
    double nll = 0;  ///< minus the model's log-probability of the token
    double reference_nll = 0;
    double kl = 0;
    bool same_top = false;
};

struct Mean {
    double value = 0;
    double error = 0;  ///< standard error
};

/// The mean of some numbers and its standard error, by llama.cpp's formula: sqrt((<x²> - <x>²) / (n - 1)).
template <typename Get>
Mean mean_of(const std::vector<Scored>& scored, Get get) {
    double sum = 0;
    double squares = 0;
    for (const Scored& token : scored) {
        const double value = get(token);
        sum += value;
        squares += value * value;
    }
    const auto count = static_cast<double>(scored.size());
    const double mean = sum / count;
    const double variance = squares / count - mean * mean;
    return {mean, variance > 0 && count > 1 ? std::sqrt(variance / (count - 1)) : 0};
}

/// The value below which `share` of the sorted values lie, linear between neighbours.
double percentile(const std::vector<double>& sorted, double share) {
    const double at = share * static_cast<double>(sorted.size() - 1);
    const auto below = static_cast<size_t>(at);
    const size_t above = std::min(below + 1, sorted.size() - 1);
    const double part = at - static_cast<double>(below);
    return (1 - part) * sorted[below] + part * sorted[above];
}

Divergence summarise_divergence(const std::vector<Scored>& scored, double nll) {
    Divergence result;
    const Mean kl = mean_of(scored, [](const Scored& token) { return token.kl; });
    result.mean_kl = kl.value;
    result.mean_kl_error = kl.error;
    std::vector<double> sorted(scored.size());
    std::ranges::transform(scored, sorted.begin(), [](const Scored& token) { return token.kl; });
    std::ranges::sort(sorted);
    result.median_kl = percentile(sorted, 0.5);
    result.p99_kl = percentile(sorted, 0.99);
    result.max_kl = sorted.back();
    const auto same = std::ranges::count_if(scored, [](const Scored& token) { return token.same_top; });
    result.same_top = static_cast<double>(same) / static_cast<double>(scored.size());

    const Mean reference = mean_of(scored, [](const Scored& token) { return token.reference_nll; });
    result.reference_ppl = std::exp(reference.value);
    result.reference_ppl_error = reference.error * result.reference_ppl;
    const Mean difference =
        mean_of(scored, [](const Scored& token) { return token.nll - token.reference_nll; });
    result.ppl_ratio = std::exp(nll - reference.value);
    result.ppl_ratio_error = difference.error * result.ppl_ratio;
    return result;
}

/// Scores the rows of one chunk: row r predicts the token at position first + r + 1.
void score_chunk(std::span<const Token> chunk, size_t first, size_t vocabulary, std::span<const float> model,
                 std::span<const float> reference, std::span<Scored> out, int threads) {
    constexpr size_t kGrain = 8;
    parallel_for(out.size(), kGrain, threads, [&](size_t begin, size_t end) {
        std::vector<float> exponentials;
        for (size_t i = begin; i < end; ++i) {
            const auto token = static_cast<size_t>(chunk[first + i + 1]);
            const auto row = model.subspan(i * vocabulary, vocabulary);
            const SoftmaxRow statistics = softmax_row(row);
            out[i].nll = -statistics.log_probability(row[token]);
            if (!reference.empty()) {
                const auto reference_row = reference.subspan(i * vocabulary, vocabulary);
                const SoftmaxRow reference_statistics = softmax_row(reference_row, exponentials);
                out[i].reference_nll = -reference_statistics.log_probability(reference_row[token]);
                out[i].kl = kl_divergence(reference_row, reference_statistics, exponentials, row, statistics);
                out[i].same_top = statistics.argmax == reference_statistics.argmax;
            }
        }
    });
}

std::string name_of(const PerplexityOptions& options, size_t model) {
    return model < options.model_names.size() ? options.model_names[model] : "the model";
}

/// `called` names the other one.
void require_same_tokens(const runtime::Engine& model, const runtime::Engine& other,
                         const std::string& called, std::string_view text, const PerplexityOptions& options,
                         const std::vector<Token>& tokens) {
    if (model.vocabulary_size() != other.vocabulary_size()) {
        throw Error(ErrorCode::bad_input,
                    fmt::format("{}: {} tokens, but {} has {}: they are not the same model", called,
                                other.vocabulary_size(), name_of(options, 0), model.vocabulary_size()));
    }
    if (tokenize_text(other, text, options.ctx) != tokens || model.leading_token() != other.leading_token()) {
        throw Error(
            ErrorCode::bad_input,
            fmt::format("{}: it turns the text into other tokens than {}: they are not the same model",
                        called, name_of(options, 0)));
    }
}

/// `called` names the model.
Perplexity summarise(const std::vector<Scored>& scored, size_t scored_per_chunk, bool with_reference,
                     const std::string& called, const std::string& reference) {
    const auto broken = std::ranges::find_if(
        scored, [](const Scored& token) { return std::isnan(token.nll) || std::isnan(token.reference_nll); });
    if (broken != scored.end()) {
        throw Error(ErrorCode::bad_input,
                    fmt::format("{} gives logits that are not numbers (chunk {}): it is broken",
                                std::isnan(broken->nll) ? called : reference,
                                static_cast<size_t>(broken - scored.begin()) / scored_per_chunk + 1));
    }
    Perplexity result;
    const Mean nll = mean_of(scored, [](const Scored& token) { return token.nll; });
    result.ppl = std::exp(nll.value);
    result.ppl_error = nll.error * result.ppl;
    result.tokens = scored.size();
    result.chunks = scored.size() / scored_per_chunk;
    if (with_reference) {
        result.divergence = summarise_divergence(scored, nll.value);
    }
    return result;
}

}  // namespace

Perplexity measure_perplexity(const runtime::Engine& model, const runtime::Engine* reference,
                              std::string_view text, const PerplexityOptions& options, Monitor& monitor) {
    const runtime::Engine* const models[] = {&model};
    return std::move(measure_perplexities(models, reference, text, options, monitor).front());
}

std::vector<Perplexity> measure_perplexities(std::span<const runtime::Engine* const> models,
                                             const runtime::Engine* reference, std::string_view text,
                                             const PerplexityOptions& options, Monitor& monitor) {
    const int threads = options.threads > 0 ? options.threads : default_threads();
    const ChunkPlan plan = plan_chunks(options.ctx);
    const runtime::Engine& model = *models.front();
    const std::vector<Token> tokens =
        within(options.text_name, [&] { return tokenize_text(model, text, options.ctx); });
    if (reference != nullptr) {
        require_same_tokens(model, *reference, options.reference_name, text, options, tokens);
    }
    for (size_t m = 1; m < models.size(); ++m) {
        require_same_tokens(model, *models[m], name_of(options, m), text, options, tokens);
    }
    if (options.ctx > model.trained_context()) {
        monitor.warn(fmt::format("the model was trained on contexts of {} tokens, not {}",
                                 model.trained_context(), options.ctx));
    }
    const size_t available = tokens.size() / options.ctx;
    const size_t chunks = options.chunks ? std::min<size_t>(*options.chunks, available) : available;
    if (chunks == 0) {
        throw Error(ErrorCode::usage, "0 chunks: at least one is needed");
    }

    const uint32_t first = options.ctx / 2;
    const size_t scored_per_chunk = options.ctx - first - 1;
    const size_t vocabulary = model.vocabulary_size();
    std::vector<std::unique_ptr<ChunkRunner>> runners;
    runners.reserve(models.size());
    for (const runtime::Engine* engine : models) {
        runners.push_back(std::make_unique<ChunkRunner>(*engine, plan, first, threads, &monitor));
    }
    std::unique_ptr<ChunkRunner> reference_runner;
    if (reference != nullptr) {
        reference_runner = std::make_unique<ChunkRunner>(*reference, plan, first, threads, &monitor);
    }

    std::vector<std::vector<Scored>> scored(models.size(), std::vector<Scored>(chunks * scored_per_chunk));
    monitor.begin(reference == nullptr ? "perplexity" : "perplexity and divergence", chunks, "chunk");
    for (size_t chunk = 0; chunk < chunks; chunk += plan.n_seq) {
        monitor.check_cancelled();
        const size_t count = std::min<size_t>(plan.n_seq, chunks - chunk);
        std::span<const float> reference_logits;
        if (reference_runner) {
            reference_logits = reference_runner->evaluate(tokens, chunk, count);
        }
        const size_t row_values = (options.ctx - first) * vocabulary;
        for (size_t m = 0; m < models.size(); ++m) {
            const std::span<const float> logits = runners[m]->evaluate(tokens, chunk, count);
            for (size_t i = 0; i < count; ++i) {
                score_chunk(std::span(tokens).subspan((chunk + i) * options.ctx, options.ctx), first,
                            vocabulary, logits.subspan(i * row_values, row_values),
                            reference_logits.empty() ? reference_logits
                                                     : reference_logits.subspan(i * row_values, row_values),
                            std::span(scored[m]).subspan((chunk + i) * scored_per_chunk, scored_per_chunk),
                            threads);
            }
        }
        monitor.advance(count);
    }
    monitor.end();
    std::vector<Perplexity> results;
    results.reserve(models.size());
    for (size_t m = 0; m < models.size(); ++m) {
        results.push_back(summarise(scored[m], scored_per_chunk, reference != nullptr, name_of(options, m),
                                    options.reference_name));
        results.back().evaluated_text = text_of(model, std::span(tokens).first(chunks * options.ctx));
    }
    return results;
}

}  // namespace kaiju::eval
