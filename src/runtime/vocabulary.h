// Text to token ids and back, by llama.cpp's tokenizers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"

struct llama_model;
struct llama_vocab;

namespace kaiju::runtime {

using Token = int32_t;

/// The vocabulary of a model: tokenizer, control tokens, chat template.
class Vocabulary {
  public:
    /// Of a loaded llama.cpp model, or of one that was loaded for its vocabulary only.
    explicit Vocabulary(std::shared_ptr<llama_model> model);
    /// From key-values alone (ModelFile::key_values()). Throws bad_input with llama.cpp's reason.
    [[nodiscard]] static Vocabulary load(Bytes key_values);

    [[nodiscard]] uint32_t size() const;
    /// Text to token ids. `add_special`: with the BOS (EOS) token where the model wants one. `parse_special`:
    /// text that spells a control token becomes that token.
    [[nodiscard]] std::vector<Token> tokenize(std::string_view text, bool add_special,
                                              bool parse_special) const;
    /// Bytes of a token; control tokens are empty unless `special`.
    [[nodiscard]] std::string piece(Token token, bool special) const;
    /// The BOS token, if the vocabulary has one.
    [[nodiscard]] std::optional<Token> bos() const;
    /// The BOS token where the model wants one at the start of a text, else nothing.
    [[nodiscard]] std::optional<Token> leading_token() const;
    /// True where tokenize with add_special appends an EOS token.
    [[nodiscard]] bool appends_eos() const;
    /// True for tokens that end a generation (end of text, end of turn).
    [[nodiscard]] bool ends_generation(Token token) const;
    /// The model's chat template (Jinja source), empty where it has none.
    [[nodiscard]] std::string chat_template() const;
    /// Throws bad_input naming the first id that is not in the vocabulary.
    void require_tokens(std::span<const Token> tokens) const;

  private:
    void require_tokenizer() const;

    std::shared_ptr<llama_model> model_;
    const llama_vocab* vocab_;
};

}  // namespace kaiju::runtime
