#include "runtime/native/native_context.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "runtime/llama_log.h"
#include "runtime/native/family.h"

namespace kaiju::runtime {

namespace {

/// Tokens that one graph takes at most: enough that a weight is unpacked once for many, little enough that
/// activations stay small.
constexpr size_t kMaxPart = 512;
constexpr uint32_t kMaxSequences = 256;
constexpr ggml_fp16_t kSeen = 0x0000;    // 0 in f16
constexpr ggml_fp16_t kUnseen = 0xFC00;  // minus infinity

uint64_t positions_of_all(const ContextOptions& options) {
    const uint64_t total = uint64_t{options.n_ctx} * options.n_seq;
    if (total == 0 || total > std::numeric_limits<int32_t>::max() || options.n_seq > kMaxSequences) {
        throw Error(ErrorCode::usage,
                    fmt::format("a context of {} positions for {} sequences is not possible", options.n_ctx,
                                options.n_seq));
    }
    return total;
}

/// Nodes that a graph may need: what the largest family takes for a block, with room for taps.
size_t most_nodes(const HyperParameters& shape) {
    constexpr size_t kPerLayer = 64;
    return kPerLayer * (shape.layers + 1);
}

}  // namespace

NativeContext::NativeContext(const Model& model, const ContextOptions& options)
    : model_(model),
      options_(options),
      threads_(graph_threads(options.threads)),
      batch_size_(positions_of_all(options)),
      cache_(model.shape, options.n_ctx, options.n_seq),
      lengths_(options.n_seq, 0),
      pool_(make_threadpool(threads_)),
      allocator_(ggml_gallocr_new(ggml_backend_cpu_buffer_type())) {
    if (options.n_batch != 0) {
        batch_size_ = std::min<uint64_t>(batch_size_, options.n_batch);
    }
}

void NativeContext::clear() {
    std::ranges::fill(lengths_, 0);
}

void NativeContext::check(std::span<const BatchToken> batch) const {
    if (batch.empty() || batch.size() > batch_size_) {
        throw Error(ErrorCode::usage,
                    fmt::format("a batch of {} tokens where 1 to {} fit", batch.size(), batch_size_));
    }
    std::vector<uint32_t> next = lengths_;
    for (const BatchToken& token : batch) {
        if (token.token < 0 || static_cast<uint32_t>(token.token) >= model_.vocabulary) {
            throw Error(ErrorCode::bad_input, fmt::format("token {} is outside the vocabulary of {} tokens",
                                                          token.token, model_.vocabulary));
        }
        if (token.sequence < 0 || static_cast<uint32_t>(token.sequence) >= options_.n_seq ||
            token.position < 0 || static_cast<uint32_t>(token.position) >= options_.n_ctx) {
            throw Error(
                ErrorCode::bad_input,
                fmt::format(
                    "position {} of sequence {} is outside a context of {} positions for {} sequences",
                    token.position, token.sequence, options_.n_ctx, options_.n_seq));
        }
        uint32_t& expected = next[static_cast<size_t>(token.sequence)];
        if (static_cast<uint32_t>(token.position) != expected) {
            throw Error(ErrorCode::bad_input, fmt::format("position {} of sequence {}, whose next is {}",
                                                          token.position, token.sequence, expected));
        }
        ++expected;
    }
}

// Neighbouring sequences with equally many tokens share a graph, so that the steps of several texts are one
// product; a sequence with more tokens than a graph takes goes in several.
std::vector<NativeContext::Part> NativeContext::divide(std::span<const BatchToken> batch) const {
    std::vector<std::vector<size_t>> of_sequence(options_.n_seq);
    for (size_t i = 0; i < batch.size(); ++i) {
        of_sequence[static_cast<size_t>(batch[i].sequence)].push_back(i);
    }
    std::vector<Part> parts;
    for (size_t sequence = 0; sequence < of_sequence.size();) {
        const size_t count = of_sequence[sequence].size();
        size_t end = sequence + 1;
        while (end < of_sequence.size() && of_sequence[end].size() == count &&
               (end + 1 - sequence) * count <= kMaxPart) {
            ++end;
        }
        for (size_t first = 0; first < count; first += kMaxPart) {
            const size_t rows = std::min(kMaxPart, count - first);
            Part& part = parts.emplace_back();
            part.shape.sequences = static_cast<int64_t>(end - sequence);
            part.shape.rows = static_cast<int64_t>(rows);
            part.shape.first_sequence = static_cast<int64_t>(sequence);
            int32_t last = 0;
            for (size_t s = sequence; s < end; ++s) {
                const auto tokens = std::span(of_sequence[s]).subspan(first, rows);
                part.tokens.insert(part.tokens.end(), tokens.begin(), tokens.end());
                last = std::max(last, batch[tokens.back()].position);
            }
            const uint64_t padding = KvCache::kPadding;
            part.shape.cells = static_cast<int64_t>((static_cast<uint64_t>(last) / padding + 1) * padding);
            const auto wanted =
                std::ranges::count_if(part.tokens, [&](size_t index) { return batch[index].logits; });
            part.shape.outputs = std::max<int64_t>(1, wanted);
        }
        sequence = end;
    }
    return parts;
}

std::span<const float> NativeContext::evaluate(std::span<const BatchToken> batch) {
    check(batch);
    std::vector<size_t> output_rows(batch.size());
    size_t outputs = 0;
    for (size_t i = 0; i < batch.size(); ++i) {
        output_rows[i] = outputs;
        outputs += batch[i].logits ? 1 : 0;
    }
    logits_.resize(outputs * model_.vocabulary);
    for (const Part& part : divide(batch)) {
        run(part, batch, output_rows);
        for (const size_t index : part.tokens) {
            ++lengths_[static_cast<size_t>(batch[index].sequence)];
        }
    }
    return logits_;
}

void NativeContext::run(const Part& part, std::span<const BatchToken> batch,
                        std::span<const size_t> output_rows) {
    // A graph serves again where nothing but its inputs changes. With a tap none does: the tap may want
    // other matrices the next time.
    if (graph_.nodes == nullptr || graph_.shape != part.shape || options_.tap != nullptr) {
        build(part.shape);
    }
    std::vector<size_t> rows;
    for (const size_t index : part.tokens) {
        if (batch[index].logits) {
            rows.push_back(output_rows[index]);
        }
    }
    const size_t vocabulary = model_.vocabulary;
    bool in_place = !rows.empty();
    for (size_t i = 1; i < rows.size(); ++i) {
        in_place = in_place && rows[i] == rows[0] + i;
    }
    if (in_place) {
        graph_.logits->data = logits_.data() + rows[0] * vocabulary;
    } else {
        staged_.resize(static_cast<size_t>(part.shape.outputs) * vocabulary);
        graph_.logits->data = staged_.data();
    }
    fill_inputs(part, batch);
    compute();
    if (!in_place) {
        for (size_t i = 0; i < rows.size(); ++i) {
            std::copy_n(staged_.data() + i * vocabulary, vocabulary, logits_.data() + rows[i] * vocabulary);
        }
    }
}

void NativeContext::build(const GraphShape& shape) {
    const size_t nodes = most_nodes(model_.shape);
    graph_ = {};
    graph_.shape = shape;
    graph_.context.reset(
        ggml_init({.mem_size = 4 * nodes * ggml_tensor_overhead() + ggml_graph_overhead_custom(nodes, false),
                   .mem_buffer = nullptr,
                   .no_alloc = true}));
    graph_.nodes = ggml_new_graph_custom(graph_.context.get(), nodes, false);
    GraphBuilder builder(graph_.context.get(), graph_.nodes, model_, cache_, shape, graph_.fallible,
                         options_.tap);
    graph_.logits = model_.family->build(builder, model_);
    graph_.inputs = builder.inputs();
    ggml_set_output(graph_.logits);
    // The logits are written where the caller reads them; an address of any kind keeps the allocator from
    // giving them memory.
    staged_.resize(std::max<size_t>(staged_.size(), 1));
    graph_.logits->data = staged_.data();
    ggml_build_forward_expand(graph_.nodes, graph_.logits);
    if (!ggml_gallocr_alloc_graph(allocator_.get(), graph_.nodes)) {
        graph_.nodes = nullptr;
        throw Error(ErrorCode::io, fmt::format("no memory to evaluate {} tokens at once", shape.tokens()));
    }
}

void NativeContext::fill_mask(ggml_tensor* mask, const Part& part, std::span<const BatchToken> batch,
                              uint32_t window) const {
    auto* row = static_cast<ggml_fp16_t*>(mask->data);
    const auto cells = static_cast<size_t>(part.shape.cells);
    for (const size_t index : part.tokens) {
        const auto end = static_cast<size_t>(batch[index].position) + 1;
        const size_t begin = window != 0 && end > window ? end - window : 0;
        std::fill(row, row + begin, kUnseen);
        std::fill(row + begin, row + end, kSeen);
        std::fill(row + end, row + cells, kUnseen);
        row += cells;
    }
}

void NativeContext::fill_inputs(const Part& part, std::span<const BatchToken> batch) {
    const GraphInputs& inputs = graph_.inputs;
    auto* tokens = static_cast<int32_t*>(inputs.tokens->data);
    auto* positions = static_cast<int32_t*>(inputs.positions->data);
    auto* cells = static_cast<int64_t*>(inputs.cells->data);
    auto* wanted = inputs.wanted == nullptr ? nullptr : static_cast<int32_t*>(inputs.wanted->data);
    size_t outputs = 0;
    for (size_t i = 0; i < part.tokens.size(); ++i) {
        const BatchToken& token = batch[part.tokens[i]];
        tokens[i] = token.token;
        positions[i] = token.position;
        cells[i] = static_cast<int64_t>(cache_.positions()) * token.sequence + token.position;
        if (token.logits && wanted != nullptr) {
            wanted[outputs++] = static_cast<int32_t>(i);
        }
    }
    if (wanted != nullptr && outputs == 0) {
        wanted[0] = 0;  // a graph has at least one output
    }
    if (inputs.mask != nullptr) {
        fill_mask(inputs.mask, part, batch, 0);
    }
    if (inputs.local_mask != nullptr) {
        fill_mask(inputs.local_mask, part, batch, model_.shape.window);
    }
}

void NativeContext::compute() {
    ggml_cplan plan = ggml_graph_plan(graph_.nodes, threads_, pool_.get());
    work_.resize(std::max(work_.size(), plan.work_size));
    plan.work_data = work_.data();
    plan.abort_callback = [](void* self) {
        const auto* context = static_cast<const NativeContext*>(self);
        return (context->options_.monitor != nullptr && context->options_.monitor->cancelled()) ||
               std::ranges::any_of(context->graph_.fallible,
                                   [](const auto& node) { return node->failure() != nullptr; });
    };
    plan.abort_callback_data = this;
    const LlamaGuard guard;
    ggml_status status = GGML_STATUS_SUCCESS;
    try {
        status = ggml_graph_compute(graph_.nodes, &plan);
    } catch (const std::exception& error) {
        throw Error(ErrorCode::internal, fmt::format("ggml failed: {}", error.what()));
    }
    for (const auto& node : graph_.fallible) {
        if (const auto failure = node->failure()) {
            graph_.nodes = nullptr;  // what failed is not asked again
            std::rethrow_exception(failure);
        }
    }
    if (options_.monitor != nullptr) {
        options_.monitor->check_cancelled();
    }
    if (status != GGML_STATUS_SUCCESS) {
        throw Error(ErrorCode::internal, fmt::format("ggml cannot evaluate the graph (status {}): {}",
                                                     static_cast<int>(status), guard.errors()));
    }
}

}  // namespace kaiju::runtime
