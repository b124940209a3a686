#include "runtime/chat.h"

#include <fmt/format.h>
#include <llama.h>

#include "base/error.h"

namespace kaiju::runtime {

std::string render_chat(const Engine& engine, const std::vector<Message>& messages, bool answer_follows) {
    const std::string chat_template = engine.chat_template();
    if (chat_template.empty()) {
        throw Error(ErrorCode::missing, "the model has no chat template: it was not made for conversations");
    }
    std::vector<llama_chat_message> views;
    size_t size = 256;
    for (const Message& message : messages) {
        views.push_back({message.role.c_str(), message.text.c_str()});
        size += 2 * (message.role.size() + message.text.size());
    }
    std::string text(size, '\0');
    const auto render = [&] {
        return llama_chat_apply_template(chat_template.c_str(), views.data(), views.size(), answer_follows,
                                         text.data(), static_cast<int32_t>(text.size()));
    };
    int32_t length = render();
    if (length > static_cast<int32_t>(text.size())) {
        text.resize(static_cast<size_t>(length));
        length = render();
    }
    if (length < 0) {
        throw Error(ErrorCode::bad_input,
                    "the model's chat template is none of those that llama.cpp knows by sight");
    }
    text.resize(static_cast<size_t>(length));
    return text;
}

Conversation::Conversation(const Engine& engine, const GenerateOptions& options, std::string_view system)
    : engine_(engine), stream_(engine, options) {
    if (!system.empty()) {
        messages_.push_back({"system", std::string(system)});
    }
    // Fails now rather than after the first question.
    (void)render_chat(engine, {{"user", "?"}}, true);
}

Generated Conversation::say(std::string_view text) {
    messages_.push_back({"user", std::string(text)});
    const std::string whole = render_chat(engine_, messages_, true);
    // What the stream holds is the text of the turns before, unless the template changes old turns (some trim
    // them): then all of it is read again.
    bool starts = seen_.empty();
    if (!starts && !whole.starts_with(seen_)) {
        stream_.clear();
        seen_.clear();
        starts = true;
    }
    const std::vector<Token> tokens =
        engine_.tokenize(std::string_view(whole).substr(seen_.size()), starts, true);
    Generated answer = stream_.extend(tokens);
    messages_.push_back({"assistant", answer.text});
    seen_ = whole;
    for (const Token token : answer.tokens) {
        seen_ += engine_.piece(token, false);
    }
    return answer;
}

}  // namespace kaiju::runtime
