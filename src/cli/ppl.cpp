// kaiju ppl: perplexity, and the divergence from a reference.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "base/file.h"
#include "cli/engine_options.h"
#include "eval/perplexity.h"
#include "eval/report.h"
#include "eval/text_overlap.h"
#include "format/calibration.h"
#include "format/knot.h"

namespace kaiju::cli {

namespace {

struct Options {
    EngineArguments engine;
    std::vector<std::string> models;
    std::string text;
    std::string reference;
    std::string reference_engine;
    std::string imatrix;
    eval::PerplexityOptions perplexity;
};

std::optional<format::Calibration> calibration_of(const format::ModelFile& file, const std::string& imatrix) {
    if (!imatrix.empty()) {
        return format::calibration_of(format::read_imatrix(imatrix));
    }
    const auto* knot = dynamic_cast<const format::KnotFile*>(&file);
    return knot == nullptr ? std::nullopt : format::calibration_of(knot->metadata());
}

/// Share of the evaluated text that the model's calibration text has too, with a warning where it is large;
/// null where it is not known.
nlohmann::json overlap_of(Session& session, const std::optional<format::Calibration>& calibration,
                          const std::string& evaluated) {
    if (!calibration) {
        return nullptr;
    }
    if (calibration->window_hashes.empty()) {
        session.monitor().warn(fmt::format(
            "whether the evaluation text overlaps the calibration text {} is not known: the file describes "
            "that text as an earlier version did, or it was too short",
            calibration->source));
        return nullptr;
    }
    const auto overlap = eval::overlap_with(evaluated, calibration->window_hashes);
    const std::optional<double> share = overlap.share();
    if (overlap.is_suspicious()) {
        session.monitor().warn(
            fmt::format("the evaluation text overlaps the calibration text {}: {:.0f} % of it is in both, so "
                        "the figures flatter the model",
                        calibration->source, 100 * share.value()));
    }
    return share ? nlohmann::json(*share) : nlohmann::json();
}

int run(Session& session, const Options& options) {
    std::vector<std::unique_ptr<format::ModelFile>> files;
    files.reserve(options.models.size());
    for (const auto& path : options.models) {
        files.push_back(format::ModelFile::open(path));
    }
    const std::string text = read_text(options.text);
    std::vector<std::unique_ptr<runtime::Engine>> engines;
    std::vector<const runtime::Engine*> models;
    engines.reserve(options.models.size());
    models.reserve(options.models.size());
    for (const auto& path : options.models) {
        engines.push_back(load_engine(path, options.engine, session.monitor()));
        models.push_back(engines.back().get());
    }
    std::unique_ptr<runtime::Engine> reference;
    if (!options.reference.empty()) {
        EngineArguments arguments = options.engine;
        if (!options.reference_engine.empty()) {
            arguments.engine = options.reference_engine;
        }
        reference = load_engine(options.reference, arguments, session.monitor());
    }
    eval::PerplexityOptions measure = options.perplexity;
    measure.threads = options.engine.threads;
    measure.text_name = options.text;
    measure.model_names = options.models;
    measure.reference_name = options.reference;
    const auto results =
        eval::measure_perplexities(models, reference.get(), text, measure, session.monitor());
    for (size_t m = 0; m < results.size(); ++m) {
        const eval::Bits bits = eval::measure_bits(*files[m]);
        const auto overlap =
            overlap_of(session, calibration_of(*files[m], options.imatrix), results[m].evaluated_text);
        if (session.json()) {
            nlohmann::json answer = eval::perplexity_json(results[m]);
            answer.update(eval::bits_json(bits));
            answer["model"] = options.models[m];
            answer["engine"] = models[m]->name();
            answer["ctx"] = measure.ctx;
            answer["calibration_overlap"] = overlap;
            session.print(answer);
        } else {
            session.print((results.size() > 1 ? options.models[m] + "\n" : "") + eval::to_text(results[m]) +
                          eval::to_text(bits));
        }
    }
    return 0;
}

}  // namespace

void add_ppl(CLI::App& app, Session& session) {
    auto options = std::make_shared<Options>();
    CLI::App* command = add_command(
        app, session, "ppl", "Measure perplexity, and the divergence from a reference model",
        "kaiju ppl --model model.knot --reference model-f16.gguf --text wiki.test.raw --chunks 40 --json",
        [options](Session& current) { return run(current, *options); });
    command
        ->add_option(
            "--model", options->models,
            "The model: .gguf or .knot; several share one run of the reference, with one answer each")
        ->required()
        ->type_name("FILE");
    command->add_option("--text", options->text, "The text to predict")->required()->type_name("FILE");
    command->add_option("--reference", options->reference, "The model to compare with: .gguf or .knot")
        ->type_name("FILE");
    const auto engines = runtime::engine_names();
    command
        ->add_option("--reference-engine", options->reference_engine,
                     "What runs the reference, where it is not what runs the model")
        ->check(CLI::IsMember(std::vector<std::string>(engines.begin(), engines.end())));
    command
        ->add_option("--imatrix", options->imatrix, "Warn where the text overlaps the one this was made from")
        ->type_name("FILE");
    command->add_option("--ctx", options->perplexity.ctx, "Tokens of a chunk")->capture_default_str();
    command->add_option("--chunks", options->perplexity.chunks, "Measure the first N chunks only")
        ->type_name("N")
        ->check(positive());
    add_engine_options(*command, options->engine);
    add_json(*command, session);
}

}  // namespace kaiju::cli
