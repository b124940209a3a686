// kaiju gate g3: encoder v3 against v1, an IQ artifact of the same size, and limits.
#include "eval/gate_g3.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "cli/engine_options.h"
#include "cli/gate_commands.h"

namespace kaiju::cli {

namespace {

using nlohmann::json;

struct Options {
    EngineArguments engine;
    std::string qspec;
    std::string v3;
    std::string v1;
    std::string iq;
    std::string reference;
    std::string text;
    std::string out;
    eval::G3Options gate;
};

std::string to_text(const eval::G3Result& result) {
    std::string text;
    const auto row = [&](uint32_t ctx, std::string_view name, const eval::Perplexity& measured,
                         const eval::Bits& bits) {
        text += fmt::format(
            "ctx {:>5} {:<3} ppl {:>9.4f} mean kl {:>8.5f} same top {:>5.1f} % linear bits "
            "{:.3f} file bits {:.3f}\n",
            ctx, name, measured.ppl, measured.divergence->mean_kl, 100 * measured.divergence->same_top,
            bits.linear.value_or(0), bits.file);
    };
    for (const eval::G3Figures& at : result.figures) {
        row(at.ctx, "v3", at.v3, result.v3_bits);
        row(at.ctx, "v1", at.v1, result.v1_bits);
        if (at.iq) {
            row(at.ctx, "iq", *at.iq, *result.iq_bits);
        }
    }
    for (const std::string& failure : result.failures) {
        text += fmt::format("failure: {}\n", failure);
    }
    return text + (result.pass ? "PASS\n" : "FAIL\n");
}

int run(Session& session, const Options& options) {
    require_outputs({options.out});
    const format::Qspec qspec = format::read_qspec(options.qspec);
    const std::string text = read_text(options.text);
    const auto v3_file = format::ModelFile::open(options.v3);
    const auto v1_file = format::ModelFile::open(options.v1);
    const auto iq_file = options.iq.empty() ? nullptr : format::ModelFile::open(options.iq);
    const auto loader = [&](const std::string& path) {
        return [&session, &options, path] { return load_engine(path, options.engine, session.monitor()); };
    };
    const auto reference = load_engine(options.reference, options.engine, session.monitor());
    eval::G3Options gate = options.gate;
    gate.text = text;
    gate.text_name = options.text;
    gate.qspec_name = options.qspec;
    gate.threads = options.engine.threads;
    const eval::G3Artifact v3{.file = v3_file.get(), .load = loader(options.v3)};
    const eval::G3Artifact v1{.file = v1_file.get(), .load = loader(options.v1)};
    const eval::G3Artifact iq{.file = iq_file.get(), .load = loader(options.iq)};
    const eval::G3Result result =
        eval::run_g3(qspec, v3, v1, iq_file ? &iq : nullptr, *reference, gate, session.monitor());
    const json answer = eval::to_json(qspec, gate, result);
    if (!options.out.empty()) {
        write_new_file(options.out, answer.dump(2) + "\n");
    }
    if (session.json()) {
        session.print(answer);
    } else {
        session.print(to_text(result));
    }
    return result.pass ? 0 : 1;
}

}  // namespace

void add_gate_g3(CLI::App& group, Session& session) {
    auto options = std::make_shared<Options>();
    eval::G3Options& gate = options->gate;
    CLI::App* command = add_command(
        group, session, "g3", "Hold encoder v3 against v1, an IQ file of equal size and limits; exit 0 or 1",
        "kaiju gate g3 --qspec model.qspec.json --v3 model-kaiju3-r1.knot --v1 model-kaiju1.knot --iq "
        "model-iq3_xxs.gguf --reference model-f16.gguf --text eval.txt --ppl-max 20 --kl-max 0.3",
        [options](Session& current) { return run(current, *options); });
    const auto file = [&](const std::string& name, std::string& value, const std::string& what) {
        return command->add_option(name, value, what)->type_name("FILE");
    };
    file("--qspec", options->qspec, "What the model must answer")->required();
    file("--v3", options->v3, "The artifact that is judged: .knot")->required();
    file("--v1", options->v1, "The same model by encoder v1: .knot")->required();
    file("--iq", options->iq, "An IQ file of the same size: .gguf");
    file("--reference", options->reference, "The full-precision model")->required();
    file("--text", options->text, "Text to measure on")->required();
    file("--out", options->out, "Write the verdict here too, as JSON");
    command->add_option("--ppl-max", gate.ppl_max, "Fail above this perplexity, at the first context")
        ->required();
    command->add_option("--kl-max", gate.kl_max, "Fail above this mean divergence, in nats")->required();
    command->add_option("--ppl-slack", gate.ppl_slack, "Perplexity above that of IQ that passes, as a part")
        ->capture_default_str();
    command->add_option("--kl-slack", gate.kl_slack, "The same for the mean divergence")
        ->capture_default_str();
    command->add_option("--size-slack", gate.size_slack, "Linear bits above those of IQ that pass, as a part")
        ->capture_default_str();
    command->add_option("--ctx", gate.ctx, "Contexts to measure at")->delimiter(',')->capture_default_str();
    command->add_option("--chunks", gate.chunks, "Measure the first N chunks only")->type_name("N");
    add_engine_options(*command, options->engine);
    add_json(*command, session);
}

}  // namespace kaiju::cli
