// kaiju capture: covariance sketches of a model's activations, or the full covariances.
#include "eval/capture.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "cli/engine_options.h"
#include "format/key_values.h"

namespace kaiju::cli {

namespace {

using nlohmann::json;

struct Options {
    EngineArguments engine;
    std::string model;
    std::string text;
    std::string memory = "16G";
    eval::CaptureOptions capture;
};

std::string id_of(const format::ModelFile& file) {
    const auto name = format::KeyValues(file.key_values()).find_string("general.name");
    return name && !name->empty() ? *name : file.path().stem().string();
}

int run(Session& session, const Options& options) {
    eval::CaptureOptions capture = options.capture;
    capture.memory = parse_size("--memory", options.memory);
    capture.threads = options.engine.threads;
    capture.source = std::filesystem::path(options.text).filename().string();
    require_absent(capture.out);
    const std::string text = read_text(options.text);
    const auto file = format::ModelFile::open(options.model);
    if (capture.model_id.empty()) {
        capture.model_id = id_of(*file);
    }
    // Before the model is loaded: whether the moments fit.
    static_cast<void>(eval::plan_taps(*file, capture.k, capture.full, capture.memory, capture.head));
    const auto model = load_engine(options.model, options.engine, session.monitor());
    const eval::Captured captured = eval::capture(*file, *model, text, capture, session.monitor());
    const std::string sha256 = sha256_file(capture.out);
    uint64_t memory = 0;
    size_t sketched = 0;
    for (const eval::TapPlan& tap : captured.taps) {
        memory += tap.bytes;
        sketched += tap.gram ? 0 : 1;
    }
    if (session.json()) {
        session.print(json{{"out", capture.out.string()},
                           {"sha256", sha256},
                           {"model_id", capture.model_id},
                           {"taps", captured.taps.size()},
                           {"nystrom_taps", sketched},
                           {"tokens", captured.tokens},
                           {"samples", captured.samples},
                           {"resumed_tokens", captured.resumed_chunks * capture.ctx},
                           {"memory_bytes", memory},
                           {"read_seconds", captured.read_seconds},
                           {"eigen_seconds", captured.eigen_seconds}});
    } else {
        session.print(
            fmt::format("{}: {} of {} taps from {} tokens ({} samples each), {:.1f} s and {:.1f} s "
                        "for {}\nsha256 {}\n",
                        capture.out.string(), capture.full ? "covariances" : "sketches", captured.taps.size(),
                        captured.tokens, captured.samples, captured.read_seconds, captured.eigen_seconds,
                        capture.full ? "writing" : "the eigenpairs", sha256));
    }
    return 0;
}

}  // namespace

void add_capture(CLI::App& app, Session& session) {
    auto options = std::make_shared<Options>();
    eval::CaptureOptions& capture = options->capture;
    CLI::App* command =
        add_command(app, session, "capture", "Sketch the covariance of the inputs of every weight matrix",
                    "kaiju capture --model model-f16.gguf --text calibration.txt --out model.sket",
                    [options](Session& current) { return run(current, *options); });
    command->add_option("--model", options->model, "The model: .gguf or .knot")
        ->required()
        ->type_name("FILE");
    command->add_option("--text", options->text, "Calibration text; never the text of an evaluation")
        ->required()
        ->type_name("FILE");
    command->add_option("--out", capture.out, "The .sket to write (with --full: the file of covariances)")
        ->required()
        ->type_name("FILE");
    command->add_option("--ctx", capture.ctx, "Tokens of a chunk")
        ->check(between(1, 1 << 24))
        ->capture_default_str();
    command->add_option("--max-tokens", capture.max_tokens, "Read this many tokens at most, in whole chunks")
        ->capture_default_str();
    command->add_option("--stride", capture.stride, "Keep every so-many-th position")->capture_default_str();
    command->add_option("--k", capture.k, "Eigenpairs of a tap")
        ->capture_default_str()
        ->check(between(0, 4096));
    command->add_flag("--full", capture.full, "Write the full covariances instead of sketches");
    command->add_flag("--head", capture.head,
                      "The input of the output head too, so that it can be encoded with v3");
    command
        ->add_option("--memory", options->memory,
                     "Memory for the sums; what does not fit is sketched while it is read")
        ->capture_default_str()
        ->type_name("SIZE");
    command->add_flag("--resume", capture.resume, "Continue a capture that was cut short");
    command->add_option("--id", capture.model_id, "Name of the model in the file (default: the one it has)");
    command->add_option("--checkpoint", capture.checkpoint_seconds, "Seconds between two checkpoints")
        ->capture_default_str()
        ->check(not_negative());
    add_engine_options(*command, options->engine);
    add_json(*command, session);
}

}  // namespace kaiju::cli
