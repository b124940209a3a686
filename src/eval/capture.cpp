#include "eval/capture.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "base/checksum.h"
#include "base/error.h"
#include "base/parallel.h"
#include "eval/capture_state.h"
#include "eval/chunks.h"
#include "eval/text_overlap.h"
#include "format/calibration.h"
#include "format/covariance.h"
#include "format/sketch.h"

namespace kaiju::eval {

using nlohmann::json;

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

void check(const CaptureOptions& options) {
    if (options.stride == 0 || options.stride > options.ctx) {
        throw Error(ErrorCode::usage,
                    fmt::format("a stride of {} positions: choose 1 to {}", options.stride, options.ctx));
    }
    if (options.max_tokens < options.ctx) {
        throw Error(ErrorCode::usage,
                    fmt::format("{} tokens are less than one chunk of {}", options.max_tokens, options.ctx));
    }
}

/// What the moments depend on; a capture that goes on must agree.
json settings_of(const format::ModelFile& file, const runtime::Engine& model, std::string_view text,
                 const CaptureOptions& options, const std::vector<TapPlan>& taps) {
    uint64_t bytes = 0;
    for (const MappedFile& part : file.mappings()) {
        bytes += part.bytes().size();
    }
    json plan = json::array();
    for (const TapPlan& tap : taps) {
        plan.push_back({tap.tap, tap.dim, tap.gram, tap.rank});
    }
    const std::string taps_text = plan.dump();
    const std::string planned = plan.dump();
    return {{"model bytes", bytes},
            {"model", hex16(xxh3(file.key_values()))},
            {"engine", model.name()},
            {"text", hex16(xxh3(std::as_bytes(std::span(text))))},
            {"ctx", options.ctx},
            {"stride", options.stride},
            {"max-tokens", options.max_tokens},
            {"taps", hex16(xxh3(std::as_bytes(std::span(taps_text))))}};
}

void write_sketches(const TapCollector& collector, const CaptureOptions& options, int threads,
                    Monitor& monitor) {
    const size_t count = collector.plan().size();
    format::SketchWriter writer(options.out, options.model_id, static_cast<uint32_t>(count));
    monitor.begin("eigenpairs", count, "taps");
    // Taps side by side, a few at a time, and written in order.
    const auto group = static_cast<size_t>(std::max(threads, 1));
    std::vector<format::Sketch> sketches(group);
    for (size_t first = 0; first < count; first += group) {
        monitor.check_cancelled();
        const size_t width = std::min(group, count - first);
        parallel_for(width, 1, threads, [&](size_t begin, size_t end) {
            for (size_t i = begin; i < end; ++i) {
                sketches[i] = collector.sketch(first + i, options.k);
            }
        });
        for (size_t i = 0; i < width; ++i) {
            writer.append(sketches[i]);
        }
        monitor.advance(width);
    }
    monitor.end();
    writer.commit();
}

void write_covariances(const TapCollector& collector, const CaptureOptions& options, const json& metadata,
                       Monitor& monitor) {
    std::vector<format::CovarianceEntry> entries;
    entries.reserve(collector.plan().size());
    for (size_t i = 0; i < collector.plan().size(); ++i) {
        const TapPlan& tap = collector.plan()[i];
        entries.push_back({.tap = tap.tap, .dim = tap.dim, .samples = collector.samples(i)});
    }
    format::CovarianceWriter writer(options.out, metadata.dump(), entries);
    monitor.begin("writing", entries.size(), "taps");
    for (size_t i = 0; i < entries.size(); ++i) {
        monitor.check_cancelled();
        writer.write(i, collector.packed_covariance(i));
        monitor.advance(1);
    }
    monitor.end();
    writer.commit();
}

/// Chunks first .. chunks-1 through the model, with a checkpoint now and then.
void read_chunks(const runtime::Engine& model, std::span<const runtime::Token> tokens, size_t first,
                 size_t chunks, const CaptureOptions& options, const CaptureState& state,
                 const json& settings, TapCollector& collector, Monitor& monitor) {
    // One sequence at a time: so a row's place tells its position. Logits are asked for at every token, or
    // the last block would work on the last token only; the collector stops the pass before they are made,
    // unless it is to see the head's input.
    constexpr uint32_t kBatch = 2048;
    const ChunkPlan plan{.ctx = options.ctx, .n_seq = 1, .n_batch = std::min(options.ctx, kBatch)};
    // The runner knows no monitor: a chunk that is cut short would have gone into some taps and not into
    // others. An interrupt waits for the end of the chunk, and loses nothing.
    ChunkRunner runner(model, plan, 0, options.threads, nullptr, &collector);
    monitor.begin("capture", chunks * options.ctx, "tokens");
    monitor.advance(first * options.ctx);
    auto saved = Clock::now();
    size_t done = first;
    for (; done < chunks; ++done) {
        const bool due = monitor.cancelled() || seconds_since(saved) >= options.checkpoint_seconds;
        if (due && done > first) {
            state.save(settings, done, collector);
            saved = Clock::now();
        }
        if (monitor.cancelled()) {
            throw Error(
                ErrorCode::interrupted,
                fmt::format("interrupted: {} of {} chunks are kept; continue with --resume", done, chunks));
        }
        collector.begin_chunk();
        runner.evaluate(tokens, done, 1);
        monitor.advance(options.ctx);
    }
    monitor.end();
    state.save(settings, done, collector);  // the eigenpairs, too, may be interrupted
}

}  // namespace

Captured capture(const format::ModelFile& file, const runtime::Engine& model, std::string_view text,
                 const CaptureOptions& options, Monitor& monitor) {
    check(options);
    const int threads = options.threads > 0 ? options.threads : default_threads();
    Captured captured{.taps = plan_taps(file, options.k, options.full, options.memory, options.head)};
    const std::vector<runtime::Token> tokens = tokenize_text(model, text, options.ctx);
    captured.chunks = std::min<uint64_t>(tokens.size(), options.max_tokens) / options.ctx;
    captured.tokens = captured.chunks * options.ctx;

    CaptureState state(options.out, options.resume);
    const json settings = settings_of(file, model, text, options, captured.taps);
    TapCollector collector(captured.taps, options.stride, threads);
    captured.resumed_chunks = state.load(settings, collector);
    if (captured.resumed_chunks > 0) {
        monitor.info(
            fmt::format("resuming: {} of {} chunks are read", captured.resumed_chunks, captured.chunks));
    }
    auto start = Clock::now();
    read_chunks(model, tokens, captured.resumed_chunks, captured.chunks, options, state, settings, collector,
                monitor);
    captured.samples = collector.samples(0);
    captured.read_seconds = seconds_since(start);

    start = Clock::now();
    if (options.full) {
        const std::string covered = text_of(model, std::span(tokens).first(captured.tokens));
        write_covariances(
            collector, options,
            {{"model_id", options.model_id},
             {"capture", {{"tokens", captured.tokens}, {"ctx", options.ctx}, {"stride", options.stride}}},
             {"calibration", format::to_json(format::Calibration{.source = options.source,
                                                                 .window_hashes = window_hashes(covered)})}},
            monitor);
    } else {
        write_sketches(collector, options, threads, monitor);
    }
    state.remove();
    captured.eigen_seconds = seconds_since(start);
    return captured;
}

}  // namespace kaiju::eval
