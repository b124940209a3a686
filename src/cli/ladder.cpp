// kaiju ladder: what a model needs before it can be encoded, from its source into the store.
#include "zoo/ladder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/command.h"
#include "cli/store_options.h"
#include "runtime/llama_quantise.h"

namespace kaiju::cli {

namespace {

struct Options {
    StoreArguments store;
    zoo::LadderOptions ladder;
    std::vector<std::string> keys;  ///< WHAT=KEY, as given
};

int run(Session& session, const Options& given) {
    zoo::LadderOptions options = given.ladder;
    options.store_options = given.store.options();
    for (const std::string& key : given.keys) {
        const size_t equals = key.find('=');
        if (equals == std::string::npos) {
            throw Error(ErrorCode::usage, fmt::format("--key {}: not of the form WHAT=KEY", key));
        }
        options.keys[key.substr(0, equals)] = key.substr(equals + 1);
    }
    const nlohmann::json answer = zoo::build_ladder(options, session.monitor());
    if (session.json()) {
        session.print(answer);
        return 0;
    }
    std::string text;
    for (const auto& key : answer.at("made")) {
        text += fmt::format("made   {}\n", key.get<std::string>());
    }
    for (const auto& key : answer.at("there")) {
        text += fmt::format("there  {}\n", key.get<std::string>());
    }
    for (const auto& rung : answer.at("rungs")) {
        text += fmt::format("{:<8} ppl {:.4f}, mean KL {:.5f}, {} bytes\n",
                            rung.at("type").get<std::string>(), rung.at("ppl").get<double>(),
                            rung.at("mean_kl").get<double>(), rung.at("bytes").get<uint64_t>());
    }
    session.print(text);
    return 0;
}

}  // namespace

void add_ladder(CLI::App& app, Session& session) {
    auto options = std::make_shared<Options>();
    zoo::LadderOptions& ladder = options->ladder;
    CLI::App* command =
        add_command(app, session, "ladder",
                    "Feed a model: f16, base, importance matrix, qspec, sketch and IQ rungs, into a store",
                    "kaiju ladder --source model-q4_1.gguf --id smollm2-135m --store zoo --text "
                    "calibration.txt --evaluation eval.txt "
                    "--prompt \"The capital of France is\" --work feed",
                    [options](Session& current) { return run(current, *options); });
    command
        ->add_option("--source", ladder.source,
                     "A GGUF of any type or a Hugging Face folder: a path or an address")
        ->type_name("SOURCE");
    command->add_option("--id", ladder.id, "Name of the model: a-z 0-9 . _ -")->required();
    command->add_option("--store", ladder.store, "Where everything goes")->required()->type_name("ADDRESS");
    command->add_option("--work", ladder.work, "Folder to work in; what is there is taken up again")
        ->required()
        ->type_name("FOLDER");
    command->add_option("--text", ladder.calibration, "Calibration text, for importance")
        ->required()
        ->type_name("FILE");
    command
        ->add_option("--evaluation", ladder.evaluation,
                     "Text for the rungs' figures; without it no rungs are made")
        ->type_name("FILE");
    command->add_option("--prompt", ladder.prompt, "Text with one clear next token, for the qspec")
        ->required();
    command->add_option("--min-margin", ladder.min_margin, "Smallest margin of the qspec, in logits")
        ->capture_default_str();
    command->add_option("--rungs", ladder.rungs, "Stock types to compare with")
        ->delimiter(',')
        ->check(CLI::IsMember(runtime::quantisation_names()))
        ->capture_default_str();
    command
        ->add_option("--key", options->keys,
                     "Another key than the usual one for f16, imatrix, base, qspec or sketch (several)")
        ->type_name("WHAT=KEY");
    command->add_option("--ctx", ladder.ctx, "Tokens of a chunk")->capture_default_str();
    command->add_option("--imatrix-chunks", ladder.calibration_chunks, "Calibrate on the first N chunks only")
        ->type_name("N");
    command
        ->add_option("--sketch-tokens", ladder.sketch_tokens,
                     "Calibrate the sketch for encoder v3 on this many tokens; 0 makes none")
        ->capture_default_str()
        ->type_name("N");
    command->add_option("--chunks", ladder.evaluation_chunks, "Evaluate on the first N chunks only")
        ->type_name("N");
    add_store_options(*command, options->store);
    add_threads(*command, ladder.threads);
    add_json(*command, session);
}

}  // namespace kaiju::cli
