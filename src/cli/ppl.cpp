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
    std::string model;
    std::string text;
    std::string reference;
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

int run(Session& session, const Options& options) {
    const auto file = format::ModelFile::open(options.model);
    const auto calibration = calibration_of(*file, options.imatrix);
    const std::string text = read_text(options.text);
    const auto model = load_engine(options.model, options.engine, session.monitor());
    std::unique_ptr<runtime::Engine> reference;
    if (!options.reference.empty()) {
        reference = load_engine(options.reference, options.engine, session.monitor());
    }
    eval::PerplexityOptions measure = options.perplexity;
    measure.threads = options.engine.threads;
    const eval::Perplexity result =
        eval::measure_perplexity(*model, reference.get(), text, measure, session.monitor());
    const eval::Bits bits = eval::measure_bits(*file);

    std::optional<eval::TextOverlap> overlap;
    if (calibration) {
        overlap = eval::overlap_with(result.evaluated_text, calibration->line_hashes);
        if (overlap->is_suspicious()) {
            session.monitor().warn(
                fmt::format("the evaluation text overlaps the calibration text {}: {:.0f} % of its lines are "
                            "in both, so the "
                            "figures flatter the model",
                            calibration->source, 100 * overlap->share()));
        }
    }
    if (session.json()) {
        nlohmann::json answer = eval::perplexity_json(result);
        answer.update(eval::bits_json(bits));
        answer["engine"] = model->name();
        answer["ctx"] = measure.ctx;
        answer["calibration_overlap"] = overlap ? nlohmann::json(overlap->share()) : nlohmann::json(nullptr);
        session.print(answer);
    } else {
        session.print(eval::to_text(result) + eval::to_text(bits));
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
    command->add_option("--model", options->model, "The model: .gguf or .knot")
        ->required()
        ->type_name("FILE");
    command->add_option("--text", options->text, "The text to predict")->required()->type_name("FILE");
    command->add_option("--reference", options->reference, "The model to compare with: .gguf or .knot")
        ->type_name("FILE");
    command
        ->add_option("--imatrix", options->imatrix, "Warn where the text overlaps the one this was made from")
        ->type_name("FILE");
    command->add_option("--ctx", options->perplexity.ctx, "Tokens of a chunk")->capture_default_str();
    command->add_option("--chunks", options->perplexity.chunks, "Measure the first N chunks only")
        ->type_name("N");
    add_engine_options(*command, options->engine);
    add_json(*command, session);
}

}  // namespace kaiju::cli
