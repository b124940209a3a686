// Conversations: messages into the text that a model was trained to continue.
#pragma once

#include <string>
#include <vector>

#include "runtime/generate.h"

namespace kaiju::runtime {

struct Message {
    std::string role;  ///< "system", "user" or "assistant"
    std::string text;
};

/// The messages as the model's chat template writes them, then the beginning of the assistant's answer if
/// `answer_follows`. llama.cpp knows the usual templates by what is in them; it does not run Jinja. Throws
/// missing where the model has no template, bad_input where it is none of the usual.
[[nodiscard]] std::string render_chat(const Engine& engine, const std::vector<Message>& messages,
                                      bool answer_follows);

/// A conversation with a model. The context keeps what was said: a turn costs what is new in it.
class Conversation {
  public:
    /// `system`: the system's message, or empty. Throws as render_chat, TextStream.
    Conversation(const Engine& engine, const GenerateOptions& options, std::string_view system);

    /// Says something and returns the model's answer. Throws usage where the conversation no longer fits the
    /// context.
    Generated say(std::string_view text);

  private:
    const Engine& engine_;
    TextStream stream_;
    std::vector<Message> messages_;
    std::string seen_;  ///< the text that the stream holds
};

}  // namespace kaiju::runtime
