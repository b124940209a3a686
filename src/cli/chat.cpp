// kaiju chat: a conversation on the terminal.
#include "runtime/chat.h"

#include <fmt/format.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "cli/engine_options.h"
#include "cli/generate_options.h"
#include "cli/line_reader.h"

namespace kaiju::cli {

namespace {

struct Options {
    EngineArguments engine;
    std::string model;
    std::string system;
    runtime::GenerateOptions generate;
};

int run(Session& session, const Options& options) {
    const auto engine = load_engine(options.model, options.engine, session.monitor());
    runtime::GenerateOptions generate = options.generate;
    generate.threads = options.engine.threads;
    generate.monitor = &session.monitor();
    if (!session.json()) {
        generate.on_piece = [&session](std::string_view piece) {
            session.write(piece);
            return true;
        };
    }
    auto conversation =
        of_model(options.model, [&] { return runtime::Conversation(*engine, generate, options.system); });
    const bool terminal = ::isatty(STDIN_FILENO) != 0;
    LineReader input(session.monitor());
    while (true) {
        if (terminal && !session.json()) {
            session.write("> ");
        }
        const std::optional<std::string> line = input.next();
        if (!line) {
            break;
        }
        session.monitor().check_cancelled();
        if (line->empty()) {
            continue;
        }
        const runtime::Generated answer = of_model(options.model, [&] { return conversation.say(*line); });
        if (session.json()) {
            session.print(nlohmann::json{{"text", answer.text},
                                         {"tokens", answer.tokens},
                                         {"ending", runtime::ending_name(answer.ending)}});
        } else {
            session.write("\n");
        }
    }
    if (terminal && !session.json()) {
        session.write("\n");
    }
    return 0;
}

}  // namespace

void add_chat(CLI::App& app, Session& session) {
    auto options = std::make_shared<Options>();
    options->generate.max_tokens = 512;
    CLI::App* command = add_command(app, session, "chat", "Talk with a model: a line in, its answer out",
                                    "kaiju chat --model model.knot --temp 0.7",
                                    [options](Session& current) { return run(current, *options); });
    command->add_option("--model", options->model, "The model: .gguf or .knot")
        ->required()
        ->type_name("FILE");
    command->add_option("--system", options->system, "The system's message")->type_name("TEXT");
    add_generate_options(*command, options->generate);
    add_engine_options(*command, options->engine);
    add_json(*command, session);
}

}  // namespace kaiju::cli
