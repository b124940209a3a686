// kaiju zoo check | params | plan | submit: what would be done, and doing it.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/zoo_commands.h"
#include "zoo/prerequisites.h"

namespace kaiju::cli {

namespace {

using nlohmann::json;

json readiness_json(const zoo::Readiness& readiness) {
    json items = json::array();
    for (const zoo::Prerequisite& item : readiness.items) {
        items.push_back({{"what", item.what},
                         {"key", item.key},
                         {"answer", zoo::answer_name(item.answer)},
                         {"note", item.note},
                         {"bytes", item.bytes}});
    }
    return {{"model", readiness.model},
            {"ready", readiness.ready()},
            {"architecture", readiness.architecture},
            {"weights", readiness.weights},
            {"prerequisites", items}};
}

int check(Session& session, const ZooArguments& arguments) {
    zoo::Zoo zoo(arguments.made());
    std::vector<const zoo::Model*> models;
    for (const zoo::Model& model : zoo.catalogue().models) {
        if ((arguments.model.empty() && model.wanted != zoo::Wanted::out_of_scope) ||
            model.id == arguments.model) {
            models.push_back(&model);
        }
    }
    if (models.empty()) {
        (void)zoo.catalogue().model(arguments.model);  // throws
    }
    constexpr int kAtOnce = 16;
    json all = json::array();
    std::string text;
    bool ready = true;
    for (const zoo::Readiness& readiness : zoo::probe_models(zoo.store(), models, kAtOnce)) {
        ready = ready && readiness.ready();
        all.push_back(readiness_json(readiness));
        text += fmt::format(
            "{:<32} {}\n", readiness.model,
            readiness.ready() ? "ready (" + readiness.architecture + ")" : "lacks " + readiness.lacking());
    }
    if (session.json()) {
        session.print(json{{"ready", ready}, {"models", all}});
    } else {
        session.print(text);
    }
    return ready ? 0 : 1;
}

int params(Session& session, const ZooArguments& arguments) {
    zoo::Zoo zoo(arguments.made());
    const zoo::Model& model = zoo.catalogue().model(arguments.model);
    const zoo::Readiness readiness = zoo::probe_model(zoo.store(), model);
    if (!readiness.qspec) {
        const zoo::Prerequisite* item = readiness.find("qspec");
        throw Error(item->answer == zoo::Answer::unknown ? ErrorCode::io : ErrorCode::missing,
                    fmt::format("{}: {} {}{}", model.id, item->key, zoo::answer_name(item->answer),
                                item->note.empty() ? "" : ": " + item->note));
    }
    const zoo::GateParameters gate = zoo::gate_parameters(zoo.catalogue(), model, *readiness.qspec);
    if (session.json() || arguments.format == "json") {
        session.print(zoo::to_json(gate));
    } else {
        session.print(zoo::to_shell(gate));
    }
    return 0;
}

zoo::Plan plan_of(zoo::Zoo& zoo, const ZooArguments& arguments) {
    const zoo::Model& model = zoo.catalogue().model(arguments.model);
    return arguments.feed ? zoo.plan_feed(model) : zoo.plan_encode(model);
}

void print_plan(Session& session, zoo::Zoo& zoo, const zoo::Plan& plan) {
    const zoo::Estimate cost = zoo.estimate_of(plan);
    const bool slurm = zoo.options().executor == "slurm";
    const auto scripts =
        slurm ? zoo::slurm_scripts(plan, zoo.state().folder() / "jobs" / plan.name, zoo.options().slurm)
              : std::vector<zoo::SlurmScript>{};
    if (session.json()) {
        json answer = zoo::to_json(plan);
        answer["estimate"] = {{"seconds", cost.seconds}, {"cost", cost.cost}, {"measured", cost.measured}};
        for (const zoo::SlurmScript& script : scripts) {
            answer["scripts"].push_back(
                {{"step", script.step}, {"array", script.array}, {"text", script.text}});
        }
        session.print(answer);
        return;
    }
    std::string text = fmt::format("job {}{}\n", plan.name, plan.key.empty() ? "" : " -> " + plan.key);
    for (const zoo::Step& step : plan.steps) {
        text += fmt::format("  {:<9} at most {:.1f} h, {:.0f} GB\n", step.name, step.limit_seconds / 3600,
                            step.memory_gb);
        for (const zoo::Command& command : step.commands) {
            text += fmt::format("      {}\n", fmt::join(command.words, " "));
        }
    }
    if (plan.weights > 0) {
        text += fmt::format("encoding takes about {:.0f} s{} ({} rate)\n", cost.seconds,
                            cost.cost > 0 ? fmt::format(" and costs {:.2f}", cost.cost) : "",
                            cost.measured ? "measured" : "sampled");
    }
    for (const zoo::SlurmScript& script : scripts) {
        text += fmt::format("\n# {}{}\n{}", script.step,
                            script.array.empty() ? "" : " --array=" + script.array, script.text);
    }
    session.print(text);
}

int plan(Session& session, const ZooArguments& arguments) {
    zoo::Zoo zoo(arguments.made());
    print_plan(session, zoo, plan_of(zoo, arguments));
    return 0;
}

int submit(Session& session, const ZooArguments& arguments) {
    zoo::Zoo zoo(arguments.made());
    const zoo::Plan plan = plan_of(zoo, arguments);
    if (!arguments.act) {
        for (const zoo::InFlight& one : zoo.in_flight()) {
            session.monitor().warn(fmt::format("in the way now: {}", one.what));
        }
        print_plan(session, zoo, plan);
        session.monitor().info("a dry run: --submit does it");
        return 0;
    }
    zoo.sync(session.monitor());  // what has ended is not in the way
    const zoo::Attempt attempt = zoo.submit(plan, session.monitor());
    if (session.json()) {
        session.print(json{{"job", attempt.name},
                           {"key", attempt.key},
                           {"folder", attempt.folder},
                           {"handle", attempt.handle}});
    } else {
        session.print(fmt::format("{}\n", attempt.folder));
    }
    return 0;
}

void add_model(CLI::App& command, ZooArguments& arguments, bool required) {
    command.add_option("model", arguments.model, "Id of the model")->required(required)->type_name("ID");
}

void add_job_options(CLI::App& command, ZooArguments& arguments) {
    command.add_flag("--feed", arguments.feed, "Make the model's prerequisites instead of encoding it");
    add_executor_options(command, arguments);
}

}  // namespace

void add_executor_options(CLI::App& command, ZooArguments& arguments) {
    zoo::ZooOptions& options = arguments.options;
    command.add_option("--executor", options.executor, "What runs the jobs")
        ->check(CLI::IsMember({"local", "slurm"}))
        ->capture_default_str();
    command.add_option("--partition", options.slurm.partition, "Slurm partition");
    command
        .add_option("--node-environment", options.slurm.environment,
                    "A file on the nodes that sets credentials; read there, never passed along")
        ->type_name("FILE");
    command.add_option("--cost-per-hour", options.cost_per_hour, "Price of a machine, for estimates")
        ->check(not_negative());
    command.add_option("--lease-beat", options.terms.beat, "Seconds between heartbeats of a job")
        ->capture_default_str()
        ->check(between(0.05, 3600.0));
    command
        .add_option("--lease-term", options.terms.term,
                    "Seconds of silence after which a job is taken for dead")
        ->capture_default_str()
        ->check(between(0.1, 86400.0));
    command.add_flag("--share-machine", options.share_machine,
                     "kaiju processes started by hand on this host are not in the way");
    command.add_option("--parallel", options.parallel, "Encodes at once; feeders always run alone")
        ->capture_default_str()
        ->check(between(1, 1024));
    add_threads(command, options.threads);
}

void add_zoo_plans(CLI::App& group, Session& session) {
    auto checked = std::make_shared<ZooArguments>();
    add_model(*add_zoo_command(group, session, "check",
                               "Which prerequisites are there, absent or unknown; exit 1 where any is not",
                               "kaiju zoo check --catalogue zoo.toml", check, checked),
              *checked, false);
    auto derived = std::make_shared<ZooArguments>();
    CLI::App* command =
        add_zoo_command(group, session, "params", "The gate's parameters, derived from the qspec",
                        "kaiju zoo params smollm2-135m --format shell", params, derived);
    add_model(*command, *derived, true);
    command->add_option("--format", derived->format, "json or shell")
        ->check(CLI::IsMember({"json", "shell"}))
        ->capture_default_str();

    auto planned = std::make_shared<ZooArguments>();
    command = add_zoo_command(group, session, "plan", "What a job would do, and about how long it takes",
                              "kaiju zoo plan smollm2-135m --executor slurm", plan, planned);
    add_model(*command, *planned, true);
    add_job_options(*command, *planned);

    auto submitted = std::make_shared<ZooArguments>();
    command = add_zoo_command(group, session, "submit", "Start a job; without --submit only show it",
                              "kaiju zoo submit smollm2-135m --submit", submit, submitted);
    add_model(*command, *submitted, true);
    add_job_options(*command, *submitted);
    command->add_flag("--submit", submitted->act, "Do it");
}

}  // namespace kaiju::cli
