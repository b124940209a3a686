// A model that runs: text to tokens, tokens to logits, and a view of the activations on the way.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/monitor.h"
#include "runtime/vocabulary.h"

namespace kaiju::runtime {

/// One token of a batch: at `position` of `sequence`. Sequences do not see each other.
struct BatchToken {
    Token token = 0;
    int32_t position = 0;
    int32_t sequence = 0;
    bool logits = false;  ///< whether evaluate() returns a row for it
};

/// Looks at the inputs of matrix products while a context evaluates. Calls come from one thread at a time.
/// What a method throws stops the evaluation and leaves Context::evaluate.
class ActivationTap {
  public:
    virtual ~ActivationTap() = default;
    /// True for the weights ("blk.0.attn_q.weight") whose inputs are wanted. Asked before every product.
    virtual bool wants(std::string_view weight) = 0;
    /// The input of the product with `weight`: `rows` tokens of `cols` f32 values, row r at data + r *
    /// stride. Tokens of several sequences may be mixed. The memory is valid during the call only.
    virtual void see(std::string_view weight, size_t rows, size_t cols, const float* data, size_t stride) = 0;
    /// Asked after every call of see: true where nothing more of this pass through the model is wanted. The
    /// rest of it (the output head) may then be left out, and the logits mean nothing.
    [[nodiscard]] virtual bool finished() const { return false; }
};

/// What a context is made for.
struct ContextOptions {
    uint32_t n_ctx = 512;  ///< positions per sequence
    uint32_t n_seq = 1;    ///< sequences side by side
    uint32_t n_batch = 0;  ///< most tokens in one call of evaluate; 0: n_ctx * n_seq
    int threads = 0;       ///< 0: all processors of this process
    ActivationTap* tap = nullptr;
    const Monitor* monitor = nullptr;  ///< asked for cancellation between the operations of the graph
};

/// The state of some sequences (their keys and values).
class Context {
  public:
    virtual ~Context() = default;
    /// Forgets all sequences.
    virtual void clear() = 0;
    /// Evaluates tokens, appending them to their sequences (positions ascend by one).
    /// @return the logits of the tokens that asked for them, in the order of the batch, vocabulary_size()
    /// values a row;
    ///         valid until the next call.
    /// Throws bad_input for a token id outside the vocabulary or a sequence or position outside the context,
    /// interrupted where the monitor was cancelled, internal where the evaluation failed.
    virtual std::span<const float> evaluate(std::span<const BatchToken> batch) = 0;
};

/// A loaded model. Contexts must not outlive it; it may serve several.
class Engine {
  public:
    virtual ~Engine() = default;
    [[nodiscard]] virtual std::string_view name() const = 0;  ///< "llama" or "native"
    [[nodiscard]] virtual std::string architecture() const = 0;
    [[nodiscard]] virtual uint32_t trained_context() const = 0;
    /// True for a mixture of experts, whose matrix products an ActivationTap does not see.
    [[nodiscard]] virtual bool mixture_of_experts() const = 0;

    [[nodiscard]] virtual const Vocabulary& vocabulary() const = 0;

    // What callers ask of the vocabulary (see there).
    [[nodiscard]] uint32_t vocabulary_size() const { return vocabulary().size(); }
    [[nodiscard]] std::vector<Token> tokenize(std::string_view text, bool add_special,
                                              bool parse_special) const {
        return vocabulary().tokenize(text, add_special, parse_special);
    }
    [[nodiscard]] std::string piece(Token token, bool special) const {
        return vocabulary().piece(token, special);
    }
    [[nodiscard]] std::optional<Token> leading_token() const { return vocabulary().leading_token(); }
    [[nodiscard]] bool appends_eos() const { return vocabulary().appends_eos(); }
    [[nodiscard]] bool ends_generation(Token token) const { return vocabulary().ends_generation(token); }
    [[nodiscard]] std::string chat_template() const { return vocabulary().chat_template(); }
    void require_tokens(std::span<const Token> tokens) const { vocabulary().require_tokens(tokens); }

    [[nodiscard]] virtual std::unique_ptr<Context> make_context(const ContextOptions& options) const = 0;
};

/// Type of the weights that a KAIJU tensor becomes in an engine that has no kernel for it.
enum class WeightType { f16, f32 };
/// "f16" or "f32"; throws usage for anything else.
[[nodiscard]] WeightType weight_type_named(std::string_view name);

struct EngineOptions {
    std::string engine = "auto";
    WeightType weight_type = WeightType::f16;  ///< llama: of decoded weights
    bool precise = false;  ///< native: inputs of KAIJU products in f32 instead of 8-bit integers
    bool repack = true;    ///< llama: weights may be brought into another order, which changes sums a little
    int threads = 0;       ///< for decoding or packing weights; 0: all processors of this process
    Monitor* monitor = nullptr;  ///< progress and cancellation of the load
};

/// The names that EngineOptions::engine takes: "native", "llama", and "auto", which is native for a knot of
/// an architecture that it runs, else llama.
[[nodiscard]] std::span<const std::string_view> engine_names();

/// Loads a GGUF (a split one by its first part) or a knot. Throws missing or bad_input, naming the file.
[[nodiscard]] std::unique_ptr<Engine> load_engine(const std::filesystem::path& path,
                                                  const EngineOptions& options);

[[nodiscard]] bool all_finite(std::span<const float> logits);
/// Throws bad_input where logits are not finite: no choice among them means anything.
void require_finite(std::span<const float> logits);

/// Evaluates tokens as one sequence and returns the logits after the last of them.
/// Throws bad_input for ids outside the vocabulary, usage for no tokens.
[[nodiscard]] std::vector<float> last_logits(const Engine& engine, std::span<const Token> tokens, int threads,
                                             const Monitor* monitor = nullptr);

}  // namespace kaiju::runtime
