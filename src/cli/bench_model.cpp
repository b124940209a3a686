// kaiju bench model: tokens per second, in llama-bench's terms.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/bench_commands.h"
#include "cli/engine_options.h"
#include "runtime/bench.h"

namespace kaiju::cli {

namespace {

struct Options {
    EngineArguments engine;
    std::string model;
    runtime::ModelBenchOptions bench;
};

int run(Session& session, const Options& options) {
    const auto engine = load_engine(options.model, options.engine, session.monitor());
    runtime::ModelBenchOptions bench = options.bench;
    bench.threads = options.engine.threads;
    const auto timings =
        of_model(options.model, [&] { return runtime::bench_model(*engine, bench, session.monitor()); });
    nlohmann::json results = nlohmann::json::array();
    std::string table =
        fmt::format("{:<10} {:<8} {:>8} {:>18} {:>8}\n", "test", "engine", "threads", "tokens/s", "best");
    for (const auto& row : timings) {
        results.push_back({{"test", row.test},
                           {"tokens_per_second", row.tokens_per_second},
                           {"deviation", row.deviation},
                           {"best", row.best},
                           {"threads", bench.threads},
                           {"engine", engine->name()}});
        table += fmt::format("{:<10} {:<8} {:>8} {:>10.2f} ± {:<5.2f} {:>8.2f}\n", row.test, engine->name(),
                             bench.threads, row.tokens_per_second, row.deviation, row.best);
    }
    if (session.json()) {
        session.print(nlohmann::json{{"results", results}});
    } else {
        session.print(table);
    }
    return 0;
}

}  // namespace

void add_bench_model(CLI::App& group, Session& session) {
    auto options = std::make_shared<Options>();
    CLI::App* command = add_command(group, session, "model",
                                    "Tokens per second of a model, as llama-bench counts them: a prompt "
                                    "evaluated together (pp), tokens generated one by one (tg)",
                                    "kaiju bench model --model model.knot -p 128 -n 64 --json",
                                    [options](Session& current) { return run(current, *options); });
    command->add_option("--model", options->model, "The model: .gguf or .knot")
        ->required()
        ->type_name("FILE");
    command->add_option("-p,--prompt", options->bench.prompt, "Tokens of the prompt; 0: no such test")
        ->check(between(0, 1 << 20))
        ->capture_default_str();
    command->add_option("-n,--tokens", options->bench.generated, "Tokens generated; 0: no such test")
        ->check(between(0, 1 << 20))
        ->capture_default_str();
    command->add_option("-r,--repetitions", options->bench.repetitions, "Runs that are averaged")
        ->check(between(1, 1000))
        ->capture_default_str();
    add_engine_options(*command, options->engine);
    add_json(*command, session);
}

}  // namespace kaiju::cli
