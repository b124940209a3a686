#include "eval/sensitivity.h"

#include <fmt/format.h>

#include <numeric>
#include <vector>

#include "base/error.h"
#include "base/parallel.h"
#include "codec/tensor_decoder.h"
#include "eval/chunks.h"
#include "eval/log_softmax.h"
#include "format/mixed_model.h"
#include "runtime/native/native_engine.h"

namespace kaiju::eval {

namespace {

/// The logits of the exact model, and how far another's are from them.
class Comparison {
  public:
    Comparison(const format::ModelFile& exact, std::string_view text, const SensitivityOptions& options,
               Monitor& monitor)
        : options_(options),
          threads_(options.threads > 0 ? options.threads : default_threads()),
          plan_(plan_chunks(options.ctx)),
          monitor_(monitor) {
        const auto engine = load(
            exact, [](std::string_view) { return false; }, exact);
        vocabulary_ = engine->vocabulary_size();
        tokens_ = within(options.text_name, [&] { return tokenize_text(*engine, text, options.ctx); });
        if (options.chunks == 0 || tokens_.size() / options.ctx < options.chunks) {
            throw Error(ErrorCode::usage,
                        fmt::format("{}: {} chunks of {} tokens, of which it has {}", options.text_name,
                                    options.chunks, options.ctx, tokens_.size() / options.ctx));
        }
        run(*engine, [&](std::span<const float> logits) {
            exact_.insert(exact_.end(), logits.begin(), logits.end());
        });
    }

    /// Mean divergence of `exact` with what `from_other` names out of `other`.
    template <typename Names>
    double of(const format::ModelFile& exact, const format::ModelFile& other, const Names& from_other) {
        const auto engine = load(other, from_other, exact);
        size_t at = 0;
        double sum = 0;
        size_t rows = 0;
        run(*engine, [&](std::span<const float> logits) {
            std::vector<double> kl(logits.size() / vocabulary_);
            parallel_for(kl.size(), 8, threads_, [&](size_t begin, size_t end) {
                std::vector<float> exponentials;
                for (size_t i = begin; i < end; ++i) {
                    const auto row = logits.subspan(i * vocabulary_, vocabulary_);
                    const auto reference = std::span(exact_).subspan(at + i * vocabulary_, vocabulary_);
                    const SoftmaxRow statistics = softmax_row(reference, exponentials);
                    kl[i] = kl_divergence(reference, statistics, exponentials, row, softmax_row(row));
                }
            });
            at += logits.size();
            rows += kl.size();
            sum = std::accumulate(kl.begin(), kl.end(), sum);
        });
        monitor_.advance(1);
        return sum / static_cast<double>(rows);
    }

  private:
    template <typename Names>
    [[nodiscard]] std::unique_ptr<runtime::Engine> load(const format::ModelFile& other,
                                                        const Names& from_other,
                                                        const format::ModelFile& exact) const {
        return runtime::load_native_engine(std::make_unique<format::MixedModel>(exact, other, from_other),
                                           {.threads = threads_});
    }

    template <typename See>
    void run(const runtime::Engine& engine, const See& see) {
        ChunkRunner runner(engine, plan_, options_.ctx / 2, threads_, &monitor_);
        for (size_t chunk = 0; chunk < options_.chunks; chunk += plan_.n_seq) {
            monitor_.check_cancelled();
            see(runner.evaluate(tokens_, chunk, std::min<size_t>(plan_.n_seq, options_.chunks - chunk)));
        }
    }

    SensitivityOptions options_;
    int threads_;
    ChunkPlan plan_;
    Monitor& monitor_;
    size_t vocabulary_ = 0;
    std::vector<runtime::Token> tokens_;
    std::vector<float> exact_;
};

}  // namespace

codec::Sensitivity measure_sensitivity(const format::ModelFile& exact, const format::ModelFile& quantised,
                                       std::string_view text, const SensitivityOptions& options,
                                       Monitor& monitor) {
    codec::Sensitivity result;
    for (const format::TensorInfo& info : quantised.tensors()) {
        const auto place = format::place_of(info.name);
        if (!place || !codec::is_kaiju_type(info.type)) {
            continue;
        }
        if (!result.type.empty() && info.type != result.type) {
            throw Error(ErrorCode::bad_input,
                        fmt::format("{}: tensor {} is {}, others are {}: encode it with --rates uniform",
                                    quantised.path().string(), info.name, info.type, result.type));
        }
        result.type = info.type;
        result.layers[place->layer] = 0;
        result.roles[std::string(place->role)] = 0;
    }
    if (result.type.empty()) {
        throw Error(ErrorCode::bad_input,
                    fmt::format("{}: has no matrix of KAIJU1 or KAIJU4", quantised.path().string()));
    }
    Comparison comparison(exact, text, options, monitor);
    monitor.begin("sensitivity", result.layers.size() + result.roles.size(), "models");
    const auto measure = [&](const auto& chosen) {
        return comparison.of(exact, quantised, [&](std::string_view name) {
            const auto index = quantised.find(name);
            const auto place = format::place_of(name);
            return place && index && quantised.tensors()[*index].type == result.type && chosen(*place);
        });
    };
    for (auto& [layer, kl] : result.layers) {
        kl = measure([&, which = layer](const format::Place& place) { return place.layer == which; });
    }
    for (auto& [role, kl] : result.roles) {
        kl = measure([&, which = role](const format::Place& place) { return place.role == which; });
    }
    monitor.end();
    return result;
}

}  // namespace kaiju::eval
