#include "runtime/llama_engine.h"

#include <fmt/format.h>
#include <llama-cpp.h>

#include <algorithm>
#include <array>
#include <exception>
#include <limits>

#include "base/error.h"
#include "base/parallel.h"
#include "format/model_file.h"
#include "runtime/llama_log.h"
#include "runtime/memory_gguf.h"
#include "runtime/threadpool.h"
#include "runtime/vocabulary.h"

namespace kaiju::runtime {

namespace {

/// Rows that llama.cpp puts through its graph at once: the default of its programs, and figures depend on it.
constexpr uint32_t kPhysicalBatch = 512;

struct BatchDeleter {
    void operator()(llama_batch* batch) const {
        llama_batch_free(*batch);
        delete batch;
    }
};
using BatchPtr = std::unique_ptr<llama_batch, BatchDeleter>;

class LlamaContext final : public Context {
  public:
    LlamaContext(llama_model* model, uint32_t vocabulary, const ContextOptions& options)
        : vocabulary_(vocabulary), options_(options), pool_(make_threadpool(graph_threads(options.threads))) {
        const uint64_t total = uint64_t{options.n_ctx} * options.n_seq;
        const uint64_t batch = options.n_batch == 0 ? total : std::min<uint64_t>(options.n_batch, total);
        if (total == 0 || total > std::numeric_limits<int32_t>::max() ||
            options.n_seq > llama_max_parallel_sequences()) {
            throw Error(ErrorCode::usage,
                        fmt::format("a context of {} positions for {} sequences is not possible",
                                    options.n_ctx, options.n_seq));
        }
        batch_size_ = static_cast<uint32_t>(batch);
        llama_context_params params = llama_context_default_params();
        params.n_ctx = static_cast<uint32_t>(total);
        params.n_batch = batch_size_;
        params.n_ubatch = kPhysicalBatch;
        params.n_seq_max = options.n_seq;
        params.n_threads = params.n_threads_batch = graph_threads(options.threads);
        params.cb_eval = options.tap == nullptr ? nullptr : on_tensor;
        params.cb_eval_user_data = this;
        params.abort_callback = options.monitor == nullptr ? nullptr : on_abort_question;
        params.abort_callback_data = this;
        params.swa_full = false;
        params.kv_unified = false;
        params.no_perf = true;

        const LlamaGuard guard;
        context_.reset(llama_init_from_model(model, params));
        if (!context_) {
            throw Error(ErrorCode::internal,
                        fmt::format("llama.cpp cannot make a context of {} positions for {} sequences: {}",
                                    options.n_ctx, options.n_seq, guard.errors()));
        }
        llama_attach_threadpool(context_.get(), pool_.get(), pool_.get());
        batch_.reset(new llama_batch(llama_batch_init(static_cast<int32_t>(batch_size_), 0, 1)));
    }

    void clear() override { llama_memory_clear(llama_get_memory(context_.get()), true); }

    std::span<const float> evaluate(std::span<const BatchToken> tokens) override {
        const size_t rows = fill(tokens);
        failure_ = nullptr;
        const LlamaGuard guard;
        int32_t status = 0;
        try {
            status = llama_decode(context_.get(), *batch_);
        } catch (const std::exception& error) {
            throw Error(ErrorCode::internal, fmt::format("llama.cpp failed: {}", error.what()));
        }
        if (failure_) {
            std::rethrow_exception(failure_);
        }
        if (options_.monitor != nullptr) {
            options_.monitor->check_cancelled();
        }
        if (status != 0) {
            throw Error(ErrorCode::internal,
                        fmt::format("llama.cpp cannot evaluate {} tokens (status {}): {}", tokens.size(),
                                    status, guard.errors()));
        }
        return rows == 0 ? std::span<const float>{}
                         : std::span(llama_get_logits(context_.get()), rows * vocabulary_);
    }

  private:
    /// Copies tokens into the batch; returns how many rows of logits it asks for.
    size_t fill(std::span<const BatchToken> tokens) {
        if (tokens.empty() || tokens.size() > batch_size_) {
            throw Error(ErrorCode::usage,
                        fmt::format("a batch of {} tokens where 1 to {} fit", tokens.size(), batch_size_));
        }
        size_t rows = 0;
        batch_->n_tokens = static_cast<int32_t>(tokens.size());
        for (size_t i = 0; i < tokens.size(); ++i) {
            const BatchToken& token = tokens[i];
            if (token.token < 0 || static_cast<uint32_t>(token.token) >= vocabulary_) {
                throw Error(
                    ErrorCode::bad_input,
                    fmt::format("token {} is outside the vocabulary of {} tokens", token.token, vocabulary_));
            }
            if (token.sequence < 0 || static_cast<uint32_t>(token.sequence) >= options_.n_seq ||
                token.position < 0 || static_cast<uint32_t>(token.position) >= options_.n_ctx) {
                throw Error(
                    ErrorCode::bad_input,
                    fmt::format(
                        "position {} of sequence {} is outside a context of {} positions for {} sequences",
                        token.position, token.sequence, options_.n_ctx, options_.n_seq));
            }
            batch_->token[i] = token.token;
            batch_->pos[i] = token.position;
            batch_->n_seq_id[i] = 1;
            batch_->seq_id[i][0] = token.sequence;
            batch_->logits[i] = token.logits ? 1 : 0;
            rows += token.logits ? 1 : 0;
        }
        return rows;
    }

    static bool on_abort_question(void* self) {
        return static_cast<LlamaContext*>(self)->options_.monitor->cancelled();
    }

    // Called twice for every node of the graph: with `ask` before, to know whether we want to see it; after
    // it was computed otherwise. The answer false to the second question stops the graph.
    static bool on_tensor(ggml_tensor* tensor, bool ask, void* self) {
        auto* context = static_cast<LlamaContext*>(self);
        try {
            return ask ? context->wants(tensor) : context->see(tensor);
        } catch (...) {
            context->failure_ = std::current_exception();
            return false;
        }
    }

    bool wants(const ggml_tensor* product) const {
        return product->op == GGML_OP_MUL_MAT && product->src[1]->type == GGML_TYPE_F32 &&
               product->src[1]->nb[0] == sizeof(float) && options_.tap->wants(product->src[0]->name);
    }

    bool see(const ggml_tensor* product) {
        const ggml_tensor* input = product->src[1];
        const auto* data =
            static_cast<const char*>(input->data);  // every buffer of the CPU backend is host memory
        for (int64_t i3 = 0; i3 < input->ne[3]; ++i3) {
            for (int64_t i2 = 0; i2 < input->ne[2]; ++i2) {
                const char* plane =
                    data + static_cast<size_t>(i3) * input->nb[3] + static_cast<size_t>(i2) * input->nb[2];
                options_.tap->see(product->src[0]->name, static_cast<size_t>(input->ne[1]),
                                  static_cast<size_t>(input->ne[0]), reinterpret_cast<const float*>(plane),
                                  input->nb[1] / sizeof(float));
            }
        }
        return !options_.tap->finished();
    }

    uint32_t vocabulary_;
    ContextOptions options_;
    uint32_t batch_size_ = 0;
    ThreadpoolPtr pool_;  // declared before the context: it must be there until the context is gone
    llama_context_ptr context_;
    BatchPtr batch_;
    std::exception_ptr failure_;
};

class LlamaEngine final : public Engine {
  public:
    LlamaEngine(llama_model_ptr model, std::string architecture)
        : model_(std::move(model)), vocabulary_(model_), architecture_(std::move(architecture)) {}

    std::string_view name() const override { return "llama"; }
    std::string architecture() const override { return architecture_; }
    uint32_t trained_context() const override {
        return static_cast<uint32_t>(llama_model_n_ctx_train(model_.get()));
    }

    bool mixture_of_experts() const override {
        std::array<char, 32> value{};
        const std::string key = architecture_ + ".expert_count";
        const int32_t length =
            llama_model_meta_val_str(model_.get(), key.c_str(), value.data(), value.size());
        return length > 0 && std::string_view(value.data()) != "0";
    }

    const Vocabulary& vocabulary() const override { return vocabulary_; }

    std::unique_ptr<Context> make_context(const ContextOptions& options) const override {
        return std::make_unique<LlamaContext>(model_.get(), vocabulary_.size(), options);
    }

  private:
    std::shared_ptr<llama_model> model_;
    Vocabulary vocabulary_;
    std::string architecture_;
};

std::string architecture_of(const llama_model* model) {
    std::array<char, 128> value{};
    const int32_t length =
        llama_model_meta_val_str(model, "general.architecture", value.data(), value.size());
    return length > 0 ? std::string(value.data()) : "";
}

/// llama.cpp counts in thousandths of the whole; a Monitor in whole units.
struct LoadProgress {
    Monitor* monitor;
    uint64_t done = 0;

    static constexpr uint64_t kUnits = 100;
    static bool report(float fraction, void* self) {
        auto* progress = static_cast<LoadProgress*>(self);
        const auto now = static_cast<uint64_t>(static_cast<float>(kUnits) * std::clamp(fraction, 0.0F, 1.0F));
        if (now > progress->done) {
            progress->monitor->advance(now - progress->done);
            progress->done = now;
        }
        return !progress->monitor->cancelled();
    }
};

}  // namespace

std::unique_ptr<Engine> load_llama_engine(const std::filesystem::path& path, const EngineOptions& options) {
    initialise_llama();
    Monitor silent;
    Monitor& monitor = options.monitor == nullptr ? silent : *options.monitor;
    // Our own reader first: it checks every size and names what is wrong, where llama.cpp may say little.
    const auto file = format::ModelFile::open(path);

    return within(path.string(), [&]() -> std::unique_ptr<Engine> {
        FilePtr memory;
        if (file->is_knot()) {
            memory =
                make_memory_gguf(*file, options.weight_type, threads_or_default(options.threads), monitor);
        }
        LoadProgress progress{&monitor};
        llama_model_params params = llama_model_default_params();
        params.n_gpu_layers = 0;
        params.use_extra_bufts = options.repack;
        params.progress_callback = LoadProgress::report;
        params.progress_callback_user_data = &progress;

        const LlamaGuard guard;
        monitor.begin("loading", LoadProgress::kUnits, "%");
        llama_model_ptr model(memory ? llama_model_load_from_file_ptr(memory.get(), params)
                                     : llama_model_load_from_file(path.c_str(), params));
        monitor.end();
        monitor.check_cancelled();
        if (!model) {
            throw Error(ErrorCode::bad_input,
                        fmt::format("llama.cpp cannot load the model: {}", guard.errors()));
        }
        std::string architecture = architecture_of(model.get());
        return std::make_unique<LlamaEngine>(std::move(model), std::move(architecture));
    });
}

}  // namespace kaiju::runtime
