// kaiju sensitivity: which layers and which roles of a model suffer most where they are quantised.
#include "eval/sensitivity.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "cli/command.h"

namespace kaiju::cli {

namespace {

struct Options {
    std::string model;
    std::string quantised;
    std::string text;
    std::string out;
    eval::SensitivityOptions measure;
};

int run(Session& session, const Options& options) {
    require_outputs({options.out});
    const std::string text = read_text(options.text);
    const auto exact = format::ModelFile::open(options.model);
    const auto quantised = format::ModelFile::open(options.quantised);
    eval::SensitivityOptions measure = options.measure;
    measure.text_name = options.text;
    const codec::Sensitivity result =
        eval::measure_sensitivity(*exact, *quantised, text, measure, session.monitor());
    nlohmann::json answer = codec::to_json(result);
    answer["chunks"] = measure.chunks;
    answer["ctx"] = measure.ctx;
    if (!options.out.empty()) {
        write_new_file(options.out, answer.dump(1) + "\n");
    }
    if (session.json()) {
        session.print(answer);
        return 0;
    }
    std::string report = fmt::format("mean divergence where only these are {}\n", result.type);
    for (const auto& [role, kl] : result.roles) {
        report += fmt::format("{:<16} {:.5f}\n", role, kl);
    }
    for (const auto& [layer, kl] : result.layers) {
        report += fmt::format("layer {:<10} {:.5f}\n", layer, kl);
    }
    session.print(report);
    return 0;
}

}  // namespace

void add_sensitivity(CLI::App& app, Session& session) {
    auto options = std::make_shared<Options>();
    CLI::App* command = add_command(
        app, session, "sensitivity", "Measure which layers and roles suffer most where they are quantised",
        "kaiju sensitivity --model model-f16.gguf --quantised model-3bits.knot --text calibration.txt --out "
        "model.sensitivity.json",
        [options](Session& current) { return run(current, *options); });
    command->add_option("--model", options->model, "The exact model: .gguf or .knot")
        ->required()
        ->type_name("FILE");
    command
        ->add_option("--quantised", options->quantised,
                     "The same with all its matrices at one rate: kaiju encode --wire KAIJU4 --rates uniform")
        ->required()
        ->type_name("FILE");
    command->add_option("--text", options->text, "Calibration text; never the text of an evaluation")
        ->required()
        ->type_name("FILE");
    command->add_option("--out", options->out, "The .json to write, for kaiju encode --sensitivity")
        ->type_name("FILE");
    command->add_option("--ctx", options->measure.ctx, "Tokens of a chunk")->capture_default_str();
    command->add_option("--chunks", options->measure.chunks, "Measure the first N chunks")
        ->type_name("N")
        ->capture_default_str()
        ->check(positive());
    add_threads(*command, options->measure.threads);
    add_json(*command, session);
}

}  // namespace kaiju::cli
