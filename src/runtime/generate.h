// Text out of a model.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/engine.h"
#include "runtime/sampler.h"

namespace kaiju::runtime {

struct GenerateOptions {
    uint32_t max_tokens = 64;
    /// Positions of the context; 0: what the model was trained for. generate() takes no more than it needs.
    uint32_t context = 0;
    SamplerOptions sampler{};
    std::vector<std::string> stops{};  ///< the text ends before the first of these
    int threads = 0;                   ///< 0: all processors of this process
    /// Called with new bytes of the text (perhaps part of a character), as soon as it is known that they do
    /// not begin a stop string; false ends it.
    std::function<bool(std::string_view piece)> on_piece{};
    const Monitor* monitor = nullptr;
};

/// Why a text ended.
enum class Ending {
    length,   ///< max_tokens were generated
    model,    ///< the model ended it
    stop,     ///< a stop string came
    context,  ///< the context is full
    caller,   ///< on_piece said so
};
[[nodiscard]] std::string_view ending_name(Ending ending);

struct Generated {
    std::vector<Token> tokens;  ///< the new ones, without the one that ended the text
    std::string text;           ///< what they spell, up to a stop string
    Ending ending = Ending::length;
};

/// A text that its model continues, as often as is wanted.
class TextStream {
  public:
    /// Throws usage for stop strings that are empty and what Sampler throws.
    TextStream(const Engine& engine, const GenerateOptions& options);

    /// Appends tokens and lets the model go on. Throws usage for no tokens at the start, or where the tokens
    /// leave no room in the context, naming both lengths; bad_input for ids outside the vocabulary.
    Generated extend(std::span<const Token> tokens);
    /// Forgets the text.
    void clear();
    [[nodiscard]] uint32_t context() const { return options_.context; }

  private:
    std::span<const float> evaluate();

    const Engine& engine_;
    GenerateOptions options_;
    std::unique_ptr<Context> context_;
    Sampler sampler_;
    uint32_t length_ = 0;         ///< tokens that the context has seen
    std::vector<Token> pending_;  ///< tokens of the text that it has not
};

/// Continues `prompt` (token ids, not empty) once.
[[nodiscard]] Generated generate(const Engine& engine, std::span<const Token> prompt,
                                 const GenerateOptions& options);

/// The tokens of a prompt: those of the text, with the tokens that the model wants around one. An empty text
/// is the model's BOS token alone. Throws usage where the model has none.
[[nodiscard]] std::vector<Token> prompt_tokens(const Engine& engine, std::string_view text);

}  // namespace kaiju::runtime
