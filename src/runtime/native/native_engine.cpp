#include "runtime/native/native_engine.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "format/key_values.h"
#include "format/model_file.h"
#include "runtime/llama_log.h"
#include "runtime/native/family.h"
#include "runtime/native/native_context.h"

namespace kaiju::runtime {

namespace {

class NativeEngine final : public Engine {
  public:
    NativeEngine(std::unique_ptr<format::ModelFile> file, const EngineOptions& options, Monitor& monitor)
        : file_(std::move(file)),
          vocabulary_(Vocabulary::load(file_->key_values())),
          weights_(*file_, options.precise ? Activations::f32 : Activations::int8,
                   threads_or_default(options.threads), monitor) {
        const format::KeyValues key_values(file_->key_values());
        model_ = load_model(family_of(key_values.architecture()), key_values, weights_);
        if (model_.vocabulary != vocabulary_.size()) {
            throw Error(ErrorCode::bad_input,
                        fmt::format("token_embd.weight has {} rows for a vocabulary of {} tokens",
                                    model_.vocabulary, vocabulary_.size()));
        }
    }

    std::string_view name() const override { return "native"; }
    std::string architecture() const override { return model_.shape.architecture; }
    uint32_t trained_context() const override { return model_.shape.context; }
    bool mixture_of_experts() const override { return false; }
    const Vocabulary& vocabulary() const override { return vocabulary_; }

    std::unique_ptr<Context> make_context(const ContextOptions& options) const override {
        return std::make_unique<NativeContext>(model_, options);
    }

  private:
    std::unique_ptr<format::ModelFile> file_;
    Vocabulary vocabulary_;
    Weights weights_;
    Model model_;
};

}  // namespace

bool native_runs(std::string_view architecture) {
    return std::ranges::any_of(families(),
                               [&](const Family* family) { return family->architecture() == architecture; });
}

std::unique_ptr<Engine> load_native_engine(std::unique_ptr<format::ModelFile> file,
                                           const EngineOptions& options) {
    initialise_llama();
    Monitor silent;
    Monitor& monitor = options.monitor == nullptr ? silent : *options.monitor;
    const Bytes bytes = file->key_values();
    if (bytes.empty()) {
        throw Error(ErrorCode::missing,
                    "the knot has no gguf_kv entry, and an engine needs the model's key-values "
                    "(hyper-parameters and tokenizer): encode it again from a base that has them");
    }
    // Before the vocabulary, which takes a while, and whose reader knows other architectures.
    (void)family_of(format::KeyValues(bytes).architecture());
    monitor.begin("loading", file->tensors().size(), "tensor");
    auto engine = std::make_unique<NativeEngine>(std::move(file), options, monitor);
    monitor.end();
    return engine;
}

std::unique_ptr<Engine> load_native_engine(const std::filesystem::path& path, const EngineOptions& options) {
    auto file = format::ModelFile::open(path);
    return within(path.string(), [&] { return load_native_engine(std::move(file), options); });
}

}  // namespace kaiju::runtime
