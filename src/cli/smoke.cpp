// kaiju smoke: token ids in, the most likely next tokens out.
#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/engine_options.h"
#include "eval/log_softmax.h"

namespace kaiju::cli {

namespace {

struct Options {
    EngineArguments engine;
    std::string model;
    std::string tokens;
    size_t top = 10;
};

/// "1,2,3": nothing may be left out, since a token that is missed by a slip changes the answer.
std::vector<runtime::Token> parse_tokens(std::string_view text) {
    std::vector<runtime::Token> tokens;
    const char* at = text.data();
    const char* const end = at + text.size();
    while (true) {
        runtime::Token token = 0;
        const auto [next, error] = std::from_chars(at, end, token);
        const bool padded = next - at > 1 && *at == '0';  // eight or ten?
        if (error != std::errc() || padded || token < 0 || (next != end && *next != ',')) {
            throw Error(ErrorCode::usage,
                        fmt::format("--tokens {}: not token ids separated by commas", text));
        }
        tokens.push_back(token);
        if (next == end) {
            return tokens;
        }
        at = next + 1;
    }
}

int run(Session& session, const Options& options) {
    const std::vector<runtime::Token> tokens = parse_tokens(options.tokens);
    const auto engine = load_engine(options.model, options.engine, session.monitor());
    const std::vector<float> logits = within(options.model, [&] {
        auto last = runtime::last_logits(*engine, tokens, options.engine.threads, &session.monitor());
        runtime::require_finite(last);
        return last;
    });
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
        ->type_name("ID,ID,...");
    command->add_option("--top", options->top, "How many tokens to show")
        ->check(between(1, 1 << 20))
        ->capture_default_str();
    add_engine_options(*command, options->engine);
    add_json(*command, session);
}

}  // namespace kaiju::cli
