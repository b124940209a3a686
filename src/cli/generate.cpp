// kaiju generate: text out of a model.
#include "runtime/generate.h"

#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "cli/engine_options.h"
#include "cli/generate_options.h"
#include "runtime/chat.h"

namespace kaiju::cli {

namespace {

struct Options {
    EngineArguments engine;
    std::string model;
    std::string prompt;
    bool chat = false;
    std::string system;
    runtime::GenerateOptions generate;
};

std::vector<runtime::Token> make_prompt(const runtime::Engine& engine, const Options& options) {
    if (!options.chat) {
        return runtime::prompt_tokens(engine, options.prompt);
    }
    std::vector<runtime::Message> messages;
    if (!options.system.empty()) {
        messages.push_back({"system", options.system});
    }
    messages.push_back({"user", options.prompt});
    return engine.tokenize(runtime::render_chat(engine, messages, true), true, true);
}

int run(Session& session, const Options& options) {
    if (!options.chat && !options.system.empty()) {
        throw Error(ErrorCode::usage, "--system goes with --chat");
    }
    const auto engine = load_engine(options.model, options.engine, session.monitor());
    const std::vector<runtime::Token> prompt =
        of_model(options.model, [&] { return make_prompt(*engine, options); });
    runtime::GenerateOptions generate = options.generate;
    generate.threads = options.engine.threads;
    generate.monitor = &session.monitor();
    bool begun = options.chat;  // the prompt comes with the first text, when nothing can be wrong with it
    const auto begin = [&] {
        if (!std::exchange(begun, true)) {
            session.write(options.prompt);
        }
    };
    if (!session.json()) {
        generate.on_piece = [&](std::string_view piece) {
            begin();
            session.write(piece);
            return true;
        };
    }
    const auto start = std::chrono::steady_clock::now();
    const runtime::Generated result =
        of_model(options.model, [&] { return runtime::generate(*engine, prompt, generate); });
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (session.json()) {
        session.print(nlohmann::json{{"prompt_tokens", prompt},
                                     {"tokens", result.tokens},
                                     {"text", result.text},
                                     {"ended", result.ending == runtime::Ending::model},
                                     {"ending", runtime::ending_name(result.ending)},
                                     {"seconds", seconds}});
    } else {
        begin();
        session.write("\n");
    }
    return 0;
}

}  // namespace

void add_generate(CLI::App& app, Session& session) {
    auto options = std::make_shared<Options>();
    CLI::App* command =
        add_command(app, session, "generate", "Continue a text with a model",
                    "kaiju generate --model model.knot --prompt \"The capital of France is\" -n 16",
                    [options](Session& current) { return run(current, *options); });
    command->add_option("--model", options->model, "The model: .gguf or .knot")
        ->required()
        ->type_name("FILE");
    command
        ->add_option("--prompt", options->prompt,
                     "Text to continue; control tokens spelled out in it are parsed")
        ->required();
    command->add_flag("--chat", options->chat, "The prompt is a user's message: answer it");
    command->add_option("--system", options->system, "With --chat: the system's message")->type_name("TEXT");
    add_generate_options(*command, options->generate);
    add_engine_options(*command, options->engine);
    add_json(*command, session);
}

}  // namespace kaiju::cli
