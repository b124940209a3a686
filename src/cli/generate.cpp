// kaiju generate: text out of a model.
#include "runtime/generate.h"

#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "cli/engine_options.h"

namespace kaiju::cli {

namespace {

struct Options {
    EngineArguments engine;
    std::string model;
    std::string prompt;
    runtime::GenerateOptions generate;
};

int run(Session& session, const Options& options) {
    const auto engine = load_engine(options.model, options.engine, session.monitor());
    const std::vector<runtime::Token> prompt = engine->tokenize(options.prompt, true, true);
    runtime::GenerateOptions generate = options.generate;
    generate.threads = options.engine.threads;
    generate.monitor = &session.monitor();
    if (!session.json()) {
        session.write(options.prompt);
        generate.on_piece = [&session](std::string_view piece) {
            session.write(piece);
            return true;
        };
    }
    const auto start = std::chrono::steady_clock::now();
    const runtime::Generated result = runtime::generate(*engine, prompt, generate);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (session.json()) {
        session.print(nlohmann::json{{"prompt_tokens", prompt},
                                     {"tokens", result.tokens},
                                     {"text", result.text},
                                     {"ended", result.ended},
                                     {"seconds", seconds}});
    } else {
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
    command->add_option("-n,--tokens", options->generate.max_tokens, "Most tokens to add")
        ->check(CLI::Range(1, 1 << 20))
        ->capture_default_str();
    command
        ->add_option("--temp", options->generate.sampler.temperature,
                     "Temperature; 0: always the most likely token")
        ->capture_default_str();
    command->add_option("--top-k", options->generate.sampler.top_k, "Keep the K most likely tokens (0: all)")
        ->capture_default_str();
    command
        ->add_option("--top-p", options->generate.sampler.top_p,
                     "Keep the most likely tokens that make up this share")
        ->capture_default_str();
    command->add_option("--seed", options->generate.sampler.seed, "The same seed gives the same text")
        ->capture_default_str();
    add_engine_options(*command, options->engine);
    add_json(*command, session);
}

}  // namespace kaiju::cli
