// kaiju zoo queue | watch | status | cancel | retry | hold | unhold | report | rebuild.
#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/file.h"
#include "cli/zoo_commands.h"
#include "zoo/report.h"

namespace kaiju::cli {

namespace {

using nlohmann::json;

json standings_json(const std::vector<zoo::ModelStanding>& standings) {
    json all = json::array();
    for (const zoo::ModelStanding& one : standings) {
        all.push_back(
            {{"model", one.model->id}, {"standing", zoo::standing_name(one.standing)}, {"note", one.note}});
    }
    return all;
}

std::string standings_text(const std::vector<zoo::ModelStanding>& standings) {
    std::string text;
    for (const zoo::ModelStanding& one : standings) {
        text += fmt::format("{:<32} {:<12} {}\n", one.model->id, zoo::standing_name(one.standing), one.note);
    }
    return text;
}

int queue(Session& session, const ZooArguments& arguments) {
    zoo::Zoo zoo(arguments.made());
    const auto standings = zoo.standings();
    if (session.json()) {
        session.print(json{{"models", standings_json(standings)}});
    } else {
        session.print(standings_text(standings));
    }
    return 0;
}

json attempt_json(zoo::State& state, const zoo::Attempt& attempt) {
    return {{"name", attempt.name},
            {"model", attempt.model},
            {"kind", attempt.kind},
            {"key", attempt.key},
            {"state", attempt.state},
            {"step", attempt.step},
            {"verdict", attempt.verdict},
            {"executor", attempt.executor},
            {"handle", attempt.handle},
            {"folder", attempt.folder},
            {"restarts", attempt.restarts},
            {"seconds", attempt.seconds},
            {"steps", state.steps(attempt.id)}};
}

int status(Session& session, const ZooArguments& arguments) {
    zoo::Zoo zoo(arguments.made());
    zoo.sync(session.monitor());
    json flying = json::array();
    std::string text;
    for (const zoo::InFlight& one : zoo.in_flight()) {
        flying.push_back({{"what", one.what}, {"kind", one.kind}});
        text += fmt::format("in flight: {}\n", one.what);
    }
    json attempts = json::array();
    for (const zoo::Attempt& attempt : zoo.state().attempts()) {
        if (!arguments.model.empty() && attempt.model != arguments.model) {
            continue;
        }
        attempts.push_back(attempt_json(zoo.state(), attempt));
        text += fmt::format("{:<40} {:<10} {:<9} {:>8.1f} s {}\n", attempt.name, attempt.state, attempt.step,
                            attempt.seconds, attempt.verdict);
    }
    if (session.json()) {
        session.print(json{{"in_flight", flying}, {"attempts", attempts}});
    } else {
        session.print(text.empty() ? std::string("nothing was submitted yet\n") : text);
    }
    return 0;
}

int watch(Session& session, const ZooArguments& arguments) {
    zoo::Zoo zoo(arguments.made());
    for (;;) {
        zoo::Tick tick;
        try {
            tick = zoo.tick(session.monitor());
        } catch (const Error& error) {
            // A store that is away for an hour must not end a watch that lasts for weeks.
            if (arguments.once || error.code() != ErrorCode::io) {
                throw;
            }
            session.monitor().warn(error.what());
        }
        if (arguments.once || tick.code != 0) {
            if (session.json()) {
                session.print(json{
                    {"action", tick.action}, {"code", tick.code}, {"models", standings_json(tick.models)}});
            } else {
                session.print(standings_text(tick.models));
            }
            return tick.code;
        }
        const auto until =
            std::chrono::steady_clock::now() + std::chrono::duration<double>(arguments.interval);
        while (std::chrono::steady_clock::now() < until) {
            session.monitor().check_cancelled();
            constexpr std::chrono::milliseconds kTick{100};
            std::this_thread::sleep_for(kTick);
        }
    }
}

int cancel(Session& session, const ZooArguments& arguments) {
    zoo::Zoo zoo(arguments.made());
    zoo.cancel(zoo.catalogue().model(arguments.model), session.monitor());
    return 0;
}

int retry(Session& session, const ZooArguments& arguments) {
    zoo::Zoo zoo(arguments.made());
    zoo.sync(session.monitor());
    zoo.retry(zoo.catalogue().model(arguments.model), session.monitor());
    return 0;
}

int hold(Session& session, const ZooArguments& arguments) {
    if (arguments.reason.empty()) {
        throw Error(ErrorCode::usage, "--reason: say why");
    }
    zoo::Zoo zoo(arguments.made());
    const std::string& id = zoo.catalogue().model(arguments.model).id;
    zoo.state().hold(id, arguments.reason);
    if (session.json()) {
        session.print(json{{"model", id}, {"held", true}, {"reason", arguments.reason}});
    }
    return 0;
}

int unhold(Session& session, const ZooArguments& arguments) {
    zoo::Zoo zoo(arguments.made());
    const zoo::Model& model = zoo.catalogue().model(arguments.model);
    if (!zoo.state().holds().contains(model.id)) {
        throw Error(ErrorCode::usage, fmt::format("{}: is not held by kaiju zoo hold{}", model.id,
                                                  model.wanted == zoo::Wanted::hold
                                                      ? "; the catalogue says HOLD: change it there"
                                                      : ""));
    }
    zoo.state().unhold(model.id);
    if (session.json()) {
        session.print(json{{"model", model.id}, {"held", false}});
    }
    return 0;
}

int report(Session& session, const ZooArguments& arguments) {
    zoo::Zoo zoo(arguments.made());
    write_new_file(arguments.out, zoo::to_html(zoo::collect_report(zoo, session.monitor())));
    if (session.json()) {
        session.print(json{{"out", arguments.out}});
    } else {
        session.print(arguments.out + "\n");
    }
    return 0;
}

int rebuild(Session& session, const ZooArguments& arguments) {
    zoo::Zoo zoo(arguments.made());
    const size_t attempts = zoo.rebuild(session.monitor());
    if (session.json()) {
        session.print(json{{"attempts", attempts}});
    }
    return 0;
}

}  // namespace

void add_zoo_watch(CLI::App& group, Session& session) {
    const auto command = [&](const std::string& name, const std::string& description,
                             const std::string& example, int (*run)(Session&, const ZooArguments&),
                             const std::shared_ptr<ZooArguments>& arguments, std::optional<bool> model) {
        CLI::App* added = add_zoo_command(group, session, name, description, example, run, arguments);
        if (model) {
            added->add_option("model", arguments->model, "Id of the model")
                ->required(*model)
                ->type_name("ID");
        }
        return added;
    };
    const auto fresh = [] { return std::make_shared<ZooArguments>(); };
    command("queue", "Where every model stands, in the order in which they are made", "kaiju zoo queue",
            queue, fresh(), {});
    command("status", "What is in flight, and every attempt with its steps and verdict", "kaiju zoo status",
            status, fresh(), false);
    const auto watched = fresh();
    CLI::App* added =
        command("watch", "Walk the queue, one action a tick; exit 11 all done, 12 stuck with failures",
                "kaiju zoo watch --interval 60", watch, watched, {});
    added->add_option("--interval", watched->interval, "Seconds between ticks")
        ->capture_default_str()
        ->check(between(0.05, 86400.0));
    added->add_flag("--once", watched->once, "One tick, for cron");
    added
        ->add_option("--restarts", watched->options.restarts,
                     "How often a job whose process died is started again")
        ->capture_default_str()
        ->check(between(0, 1000));
    add_executor_options(*added, *watched);
    command("cancel", "Stop a model's running job at its next safe place", "kaiju zoo cancel smollm2-135m",
            cancel, fresh(), true);
    const auto retried = fresh();
    add_executor_options(*command("retry", "Let a failed attempt go on, or a feeder begin anew",
                                  "kaiju zoo retry smollm2-135m", retry, retried, true),
                         *retried);
    const auto held = fresh();
    command("hold", "Leave a model alone until unhold",
            "kaiju zoo hold smollm2-135m --reason \"wrong tokenizer\"", hold, held, true)
        ->add_option("--reason", held->reason, "Why")
        ->required();
    command("unhold", "Take a hold back", "kaiju zoo unhold smollm2-135m", unhold, fresh(), true);
    const auto reported = fresh();
    command("report", "One page with everything: models, plots, gates, timings",
            "kaiju zoo report --out zoo.html", report, reported, {})
        ->add_option("--out", reported->out, "The .html file to write; it must not exist")
        ->required()
        ->type_name("FILE");
    command("rebuild", "Make the state again from what the store knows", "kaiju zoo rebuild", rebuild,
            fresh(), {});
}

}  // namespace kaiju::cli
