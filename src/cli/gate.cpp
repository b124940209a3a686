// kaiju gate ...: make and run the argmax gate of a model.
#include "eval/gate.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "cli/engine_options.h"
#include "cli/gate_commands.h"

namespace kaiju::cli {

namespace {

using nlohmann::json;

struct MintArguments {
    EngineArguments engine;
    std::string model;
    std::string out;
    eval::MintOptions mint;
};

json standing_json(const eval::TokenStanding& standing, const runtime::Engine& model) {
    return {{"token", standing.token},
            {"logit", standing.logit},
            {"rank", standing.rank},
            {"text", model.piece(standing.token, true)}};
}

int mint(Session& session, const MintArguments& arguments) {
    require_outputs({arguments.out});
    const auto file = format::ModelFile::open(arguments.model);
    eval::require_scope(*file);
    const auto model = load_engine(arguments.model, arguments.engine, session.monitor());
    eval::MintOptions options = arguments.mint;
    options.threads = arguments.engine.threads;
    const eval::Minted minted =
        of_model(arguments.model, [&] { return eval::mint_gate(*file, *model, options, session.monitor()); });
    const double second_margin =
        static_cast<double>(minted.expect.logit) - static_cast<double>(minted.second.logit);
    if (!minted.refused && second_margin < options.min_margin) {
        session.monitor().warn(
            fmt::format("token {} is only {:.3f} logits behind the answer: the gate may be fragile",
                        minted.second.token, second_margin));
    }
    if (!minted.refused) {
        write_new_file(arguments.out, format::to_json_text(minted.qspec));
    }
    if (session.json()) {
        session.print(json{{"pass", !minted.refused},
                           {"id", minted.qspec.id},
                           {"prompt_tokens", minted.qspec.prompt_tokens},
                           {"expect", standing_json(minted.expect, *model)},
                           {"reject", standing_json(minted.reject, *model)},
                           {"margin", minted.margin}});
    } else if (!minted.refused) {
        session.print(fmt::format("{}: expects token {} (\"{}\"), {:.3f} logits before token {} (\"{}\")\n",
                                  arguments.out, minted.expect.token, model->piece(minted.expect.token, true),
                                  minted.margin, minted.reject.token,
                                  model->piece(minted.reject.token, true)));
    }
    if (minted.refused) {
        session.monitor().warn(fmt::format(
            "refused: token {} is only {:.3f} logits behind token {}, and a gate wants {}: choose a prompt "
            "with a clearer answer",
            minted.reject.token, minted.margin, minted.expect.token, options.min_margin));
        return 1;
    }
    return 0;
}

struct RunArguments {
    EngineArguments engine;
    std::string qspec;
    std::string model;
    std::string reference;
    std::string text;
    std::string argmax = "require";
    std::string log;
    std::string telemetry;
    eval::GateOptions gate;
};

int run_gate(Session& session, const RunArguments& arguments) {
    require_outputs({arguments.log, arguments.telemetry});
    const format::Qspec qspec = format::read_qspec(arguments.qspec);
    const auto file = format::ModelFile::open(arguments.model);
    eval::require_scope(*file);
    const auto model = load_engine(arguments.model, arguments.engine, session.monitor());
    std::unique_ptr<runtime::Engine> reference;
    if (!arguments.reference.empty()) {
        reference = load_engine(arguments.reference, arguments.engine, session.monitor());
    }
    eval::GateOptions options = arguments.gate;
    options.qspec_name = arguments.qspec;
    options.perplexity.model_names = {arguments.model};
    options.perplexity.reference_name = arguments.reference;
    options.argmax = arguments.argmax == "report" ? eval::ArgmaxMode::report : eval::ArgmaxMode::require;
    options.threads = options.perplexity.threads = arguments.engine.threads;
    std::string text;
    if (!arguments.text.empty()) {
        text = read_text(arguments.text);
        options.perplexity.text_name = arguments.text;
        options.text = text;
    }
    const eval::GateResult result =
        eval::run_gate(qspec, *file, *model, reference.get(), options, session.monitor());

    const json answer = eval::to_json(qspec, options, result);
    const std::string log = eval::to_log(qspec, options, result);
    if (!arguments.log.empty()) {
        write_new_file(arguments.log, log);
    }
    if (!arguments.telemetry.empty()) {
        write_new_file(arguments.telemetry, answer.dump(2) + "\n");
    }
    if (session.json()) {
        session.print(answer);
    } else {
        session.print(log);
    }
    return result.pass ? 0 : 1;
}

void add_mint(CLI::App& group, Session& session) {
    auto arguments = std::make_shared<MintArguments>();
    CLI::App* command =
        add_command(group, session, "mint", "Make a qspec from a full-precision model",
                    "kaiju gate mint --model model-f16.gguf --prompt \"The capital of France is\" --id model "
                    "--out model.qspec.json",
                    [arguments](Session& current) { return mint(current, *arguments); });
    command->add_option("--model", arguments->model, "The full-precision model: .gguf or .knot")
        ->required()
        ->type_name("FILE");
    command->add_option("--prompt", arguments->mint.prompt, "Text with one clear next token")->required();
    command->add_option("--id", arguments->mint.id, "Name of the model: a-z 0-9 . _ -")->required();
    command->add_option("--out", arguments->out, "The qspec to write")->required()->type_name("FILE");
    command
        ->add_option("--reject-token", arguments->mint.reject_token,
                     "A plausible wrong token (default: the second-best)")
        ->check(between(0, 2147483647));
    command->add_option("--min-margin", arguments->mint.min_margin, "Refuse a smaller margin, in logits")
        ->capture_default_str();
    add_engine_options(*command, arguments->engine);
    add_json(*command, session);
}

void add_run(CLI::App& group, Session& session) {
    auto arguments = std::make_shared<RunArguments>();
    CLI::App* command = add_command(
        group, session, "run",
        "Hold a quantised model against its qspec; exit 0 passed, 1 failed, 5 not ready",
        "kaiju gate run --qspec model.qspec.json --model model.knot --reference model-f16.gguf --text "
        "eval.txt --kl-max 0.3 --chunks 40 --log gate.log",
        [arguments](Session& current) { return run_gate(current, *arguments); });
    command->add_option("--qspec", arguments->qspec, "What the model must answer")
        ->required()
        ->type_name("FILE");
    command->add_option("--model", arguments->model, "The model: .gguf or .knot")
        ->required()
        ->type_name("FILE");
    command->add_option("--reference", arguments->reference, "The full-precision model, for divergence")
        ->type_name("FILE");
    auto* const text =
        command->add_option("--text", arguments->text, "Text to measure perplexity on")->type_name("FILE");
    command->add_option("--ppl-max", arguments->gate.ppl_max, "Fail above this perplexity");
    command->add_option("--kl-max", arguments->gate.kl_max, "Fail above this mean divergence, in nats");
    command->add_option("--ctx", arguments->gate.perplexity.ctx, "Tokens of a chunk")
        ->capture_default_str()
        ->needs(text);
    command->add_option("--chunks", arguments->gate.perplexity.chunks, "Measure the first N chunks only")
        ->needs(text)
        ->type_name("N")
        ->check(positive());
    command->add_option("--argmax", arguments->argmax, "Whether another argmax than expected fails")
        ->check(CLI::IsMember({"require", "report"}))
        ->capture_default_str();
    command->add_option("--log", arguments->log, "Write the gate log here")->type_name("FILE");
    command->add_option("--telemetry", arguments->telemetry, "Write all figures here, as JSON")
        ->type_name("FILE");
    add_engine_options(*command, arguments->engine);
    add_json(*command, session);
}

}  // namespace

void add_gate(CLI::App& app, Session& session) {
    CLI::App* group =
        add_group(app, "gate", "Does a quantised model still give the full-precision model's answer?");
    add_mint(*group, session);
    add_run(*group, session);
    add_gate_g3(*group, session);
}

}  // namespace kaiju::cli
