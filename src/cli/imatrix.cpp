// kaiju imatrix: the importance of every input column, for encoders.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "cli/engine_options.h"
#include "eval/imatrix_collector.h"
#include "eval/imatrix_of_taps.h"

namespace kaiju::cli {

namespace {

struct Options {
    EngineArguments engine;
    std::string model;
    std::string text;
    std::string sketch;
    std::string covariance;
    std::string out;
    eval::ImportanceOptions importance;
};

/// From what a capture has measured: no model runs.
int convert(Session& session, const Options& options) {
    const auto model = format::ModelFile::open(options.model);
    const format::Imatrix imatrix = options.sketch.empty()
                                        ? eval::imatrix_of(*model, format::CovarianceFile(options.covariance))
                                        : eval::imatrix_of(*model, format::SketchFile(options.sketch));
    format::write_imatrix(options.out, imatrix);
    if (session.json()) {
        session.print(nlohmann::json{
            {"entries", imatrix.entries.size()}, {"tokens", imatrix.chunk_size}, {"out", options.out}});
    } else {
        session.print(fmt::format("{}: importance of {} matrices from {} tokens\n", options.out,
                                  imatrix.entries.size(), imatrix.chunk_size));
    }
    return 0;
}

int run(Session& session, const Options& options) {
    require_outputs({options.out});
    if (options.text.empty()) {
        return convert(session, options);
    }
    const std::string text = read_text(options.text);
    const auto model = load_engine(options.model, options.engine, session.monitor());
    eval::ImportanceOptions collect = options.importance;
    collect.threads = options.engine.threads;
    collect.text_name = options.text;
    const eval::Importance importance = eval::collect_importance(*model, text, collect, session.monitor());
    const std::string source = std::filesystem::path(options.text).filename().string();
    format::write_imatrix(options.out, eval::to_imatrix(importance, source));
    if (session.json()) {
        session.print(nlohmann::json{{"entries", importance.sums.size()},
                                     {"chunks", importance.chunks},
                                     {"ctx", importance.ctx},
                                     {"tokens", importance.chunks * importance.ctx},
                                     {"out", options.out}});
    } else {
        session.print(fmt::format("{}: importance of {} matrices from {} tokens\n", options.out,
                                  importance.sums.size(), importance.chunks * importance.ctx));
    }
    return 0;
}

}  // namespace

void add_imatrix(CLI::App& app, Session& session) {
    auto options = std::make_shared<Options>();
    CLI::App* command = add_command(
        app, session, "imatrix", "Measure the importance of the input columns of every weight matrix",
        "kaiju imatrix --model model-f16.gguf --text calibration.txt --chunks 80 --out model.imatrix.gguf",
        [options](Session& current) { return run(current, *options); });
    command->add_option("--model", options->model, "The model: .gguf or .knot")
        ->required()
        ->type_name("FILE");
    CLI::Option_group* source = command->add_option_group("source", "What it is made from: one of these");
    CLI::Option* text =
        source->add_option("--text", options->text, "Calibration text; never the text of an evaluation")
            ->type_name("FILE");
    source
        ->add_option("--sketch", options->sketch,
                     "What kaiju capture has measured of this model: nothing runs, the numbers are the same")
        ->type_name("FILE");
    source->add_option("--covariance", options->covariance, "The same, with --full")->type_name("FILE");
    source->require_option(1);
    command->add_option("--out", options->out, "The importance matrix to write, as llama-quantize reads it")
        ->required()
        ->type_name("FILE");
    command->add_option("--ctx", options->importance.ctx, "Tokens of a chunk")
        ->capture_default_str()
        ->needs(text);
    command->add_option("--chunks", options->importance.chunks, "Read the first N chunks only")
        ->type_name("N")
        ->check(positive())
        ->needs(text);
    add_engine_options(*command, options->engine);
    add_json(*command, session);
}

}  // namespace kaiju::cli
