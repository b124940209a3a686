// kaiju smoke: token ids in, the most likely next tokens out.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/engine_options.h"
#include "eval/log_softmax.h"

namespace kaiju::cli {

namespace {

struct Options {
    EngineArguments engine;
    std::string model;
    std::vector<runtime::Token> tokens;
    size_t top = 10;
};

int run(Session& session, const Options& options) {
    const auto engine = load_engine(options.model, options.engine, session.monitor());
    const std::vector<float> logits =
        runtime::last_logits(*engine, options.tokens, options.engine.threads, &session.monitor());
    const std::vector<int32_t> order = eval::top_tokens(logits, options.top);
    if (session.json()) {
        nlohmann::json top = nlohmann::json::array();
        for (const int32_t token : order) {
            top.push_back({{"token", token}, {"logit", logits[static_cast<size_t>(token)]}});
        }
        session.print(nlohmann::json{{"argmax", order.front()}, {"top", top}, {"engine", engine->name()}});
        return 0;
    }
    session.print(fmt::format("argmax {}\n", order.front()));
    for (const int32_t token : order) {
        session.print(fmt::format("{:>8} {:10.4f}\n", token, logits[static_cast<size_t>(token)]));
    }
    return 0;
}

}  // namespace

void add_smoke(CLI::App& app, Session& session) {
    auto options = std::make_shared<Options>();
    CLI::App* command =
        add_command(app, session, "smoke", "Run a model on token ids and show the likeliest next tokens",
                    "kaiju smoke --model model.knot --tokens 504,3575,282,4649,314 --top 5 --json",
                    [options](Session& current) { return run(current, *options); });
    command->add_option("--model", options->model, "The model: .gguf or .knot")
        ->required()
        ->type_name("FILE");
    command->add_option("--tokens", options->tokens, "Token ids, separated by commas")
        ->required()
        ->delimiter(',');
    command->add_option("--top", options->top, "How many tokens to show")
        ->check(CLI::Range(1, 1 << 20))
        ->capture_default_str();
    add_engine_options(*command, options->engine);
    add_json(*command, session);
}

}  // namespace kaiju::cli
