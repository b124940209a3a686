#include "runtime/vocabulary.h"

#include <fmt/format.h>
#include <llama-cpp.h>

#include <algorithm>
#include <exception>
#include <limits>

#include "base/error.h"
#include "runtime/llama_log.h"
#include "runtime/memory_gguf.h"

namespace kaiju::runtime {

namespace {

/// What llama.cpp makes of a vocabulary that does not hold what its kind promises (the 256 bytes, say) is an
/// exception of the standard library.
template <typename Body>
auto of_vocabulary(const Body& body) {
    try {
        return body();
    } catch (const Error&) {
        throw;
    } catch (const std::exception& error) {
        throw Error(ErrorCode::bad_input,
                    fmt::format("llama.cpp cannot use the vocabulary: {}", error.what()));
    }
}

}  // namespace

Vocabulary::Vocabulary(std::shared_ptr<llama_model> model)
    : model_(std::move(model)), vocab_(llama_model_get_vocab(model_.get())) {}

Vocabulary Vocabulary::load(Bytes key_values) {
    initialise_llama();
    const FilePtr file = make_memory_file(key_values);
    llama_model_params params = llama_model_default_params();
    params.n_gpu_layers = 0;
    params.vocab_only = true;
    params.load_mode =
        LLAMA_LOAD_MODE_NONE;  // to map, it wants an alignment that a file without tensors may lack
    const LlamaGuard guard;
    llama_model_ptr model(of_vocabulary([&] { return llama_model_load_from_file_ptr(file.get(), params); }));
    if (!model) {
        throw Error(ErrorCode::bad_input,
                    fmt::format("llama.cpp cannot load the vocabulary: {}", guard.errors()));
    }
    return Vocabulary(std::move(model));
}

uint32_t Vocabulary::size() const {
    return static_cast<uint32_t>(llama_vocab_n_tokens(vocab_));
}

std::vector<Token> Vocabulary::tokenize(std::string_view text, bool add_special, bool parse_special) const {
    require_tokenizer();
    if (text.size() > std::numeric_limits<int32_t>::max()) {
        throw Error(ErrorCode::bad_input,
                    fmt::format("a text of {} bytes is too long to tokenize at once", text.size()));
    }
    const auto length = static_cast<int32_t>(text.size());
    std::vector<Token> tokens(text.size() + 2);
    const auto run = [&] {
        return of_vocabulary([&] {
            return llama_tokenize(vocab_, text.data(), length, tokens.data(),
                                  static_cast<int32_t>(tokens.size()), add_special, parse_special);
        });
    };
    int32_t count = run();
    if (count < 0 && count != std::numeric_limits<int32_t>::min()) {
        tokens.resize(static_cast<size_t>(-count));
        count = run();
    }
    if (count < 0) {
        throw Error(ErrorCode::bad_input, "llama.cpp cannot tokenize the text");
    }
    tokens.resize(static_cast<size_t>(count));
    return tokens;
}

std::string Vocabulary::piece(Token token, bool special) const {
    require_tokenizer();
    require_tokens(std::span(&token, 1));
    std::string text(32, '\0');
    const auto run = [&] {
        return of_vocabulary([&] {
            return llama_token_to_piece(vocab_, token, text.data(), static_cast<int32_t>(text.size()), 0,
                                        special);
        });
    };
    int32_t length = run();
    if (length < 0) {
        text.resize(static_cast<size_t>(-length));
        length = run();
    }
    text.resize(static_cast<size_t>(std::max(length, 0)));
    return text;
}

std::optional<Token> Vocabulary::bos() const {
    const Token token = llama_vocab_bos(vocab_);
    return token >= 0 ? std::optional(token) : std::nullopt;
}

std::optional<Token> Vocabulary::leading_token() const {
    return llama_vocab_get_add_bos(vocab_) ? bos() : std::nullopt;
}

bool Vocabulary::appends_eos() const {
    return llama_vocab_get_add_eos(vocab_);
}

bool Vocabulary::ends_generation(Token token) const {
    require_tokens(std::span(&token, 1));
    return llama_vocab_is_eog(vocab_, token);
}

std::string Vocabulary::chat_template() const {
    const char* text = llama_model_chat_template(model_.get(), nullptr);
    return text == nullptr ? "" : text;
}

void Vocabulary::require_tokens(std::span<const Token> tokens) const {
    for (size_t i = 0; i < tokens.size(); ++i) {
        if (tokens[i] < 0 || static_cast<uint32_t>(tokens[i]) >= size()) {
            throw Error(ErrorCode::bad_input,
                        fmt::format("token {} (number {} of {}) is outside the vocabulary of {} tokens",
                                    tokens[i], i + 1, tokens.size(), size()));
        }
    }
}

void Vocabulary::require_tokenizer() const {
    if (llama_vocab_type(vocab_) == LLAMA_VOCAB_TYPE_NONE) {
        throw Error(ErrorCode::missing, "the model carries no tokenizer: it takes token ids only");
    }
}

}  // namespace kaiju::runtime
