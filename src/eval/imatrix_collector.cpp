#include "eval/imatrix_collector.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "eval/chunks.h"
#include "eval/text_overlap.h"
#include "format/calibration.h"

namespace kaiju::eval {

void ImportanceCollector::see(std::string_view weight, size_t rows, size_t cols, const float* data,
                              size_t stride) {
    auto found = sums_.find(weight);
    if (found == sums_.end()) {
        found = sums_.emplace(std::string(weight), ImportanceSums{std::vector<double>(cols), 0}).first;
    }
    ImportanceSums& sums = found->second;
    if (sums.squares.size() != cols) {
        throw Error(ErrorCode::bad_input, fmt::format("the input of {} has {} columns, and had {} before",
                                                      weight, cols, sums.squares.size()));
    }
    for (size_t row = 0; row < rows; ++row) {
        const float* x = data + row * stride;
        for (size_t i = 0; i < cols; ++i) {
            sums.squares[i] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
        }
    }
    sums.tokens += rows;
    if (!std::ranges::all_of(sums.squares, [](double value) { return std::isfinite(value); })) {
        throw Error(ErrorCode::bad_input,
                    fmt::format("the input of {} is not finite: the model is broken", weight));
    }
}

Importance collect_importance(const runtime::Engine& model, std::string_view text,
                              const ImportanceOptions& options, Monitor& monitor) {
    if (model.mixture_of_experts()) {
        throw Error(ErrorCode::bad_input,
                    fmt::format("{} with a mixture of experts: importance is collected for dense models only",
                                model.architecture()));
    }
    const ChunkPlan plan = plan_chunks(options.ctx);
    const std::vector<runtime::Token> tokens =
        within(options.text_name, [&] { return tokenize_text(model, text, options.ctx); });
    const size_t available = tokens.size() / options.ctx;
    const size_t chunks = options.chunks ? std::min<size_t>(*options.chunks, available) : available;
    if (chunks == 0) {
        throw Error(ErrorCode::usage, "0 chunks: at least one is needed");
    }

    ImportanceCollector collector;
    ChunkRunner runner(model, plan, 0, options.threads, &monitor, &collector);
    monitor.begin("importance", chunks, "chunk");
    for (size_t chunk = 0; chunk < chunks; chunk += plan.n_seq) {
        monitor.check_cancelled();
        const size_t count = std::min<size_t>(plan.n_seq, chunks - chunk);
        runner.evaluate(tokens, chunk, count);
        monitor.advance(count);
    }
    monitor.end();

    return {.sums = collector.sums(),
            .ctx = options.ctx,
            .chunks = chunks,
            .window_hashes = window_hashes(text_of(model, std::span(tokens).first(chunks * options.ctx)))};
}

format::Imatrix to_imatrix(const Importance& importance, const std::string& source) {
    format::Imatrix imatrix;
    for (const auto& [name, sums] : importance.sums) {
        format::ImatrixEntry& entry = imatrix.entries[name];
        entry.sum_of_squares.resize(sums.squares.size());
        std::ranges::transform(sums.squares, entry.sum_of_squares.begin(),
                               [](double value) { return static_cast<float>(value); });
        entry.count = static_cast<float>(sums.tokens);
    }
    imatrix.chunk_count = static_cast<uint32_t>(importance.chunks);
    imatrix.chunk_size = importance.ctx;
    format::set_calibration(imatrix, {.source = source, .window_hashes = importance.window_hashes});
    return imatrix;
}

}  // namespace kaiju::eval
