// The parts of kaiju zoo, one function per file.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "cli/command.h"
#include "cli/store_options.h"
#include "zoo/zoo.h"

namespace kaiju::cli {

/// Options that every command of the zoo shares, and those that some have.
struct ZooArguments {
    StoreArguments store;
    zoo::ZooOptions options;
    std::string catalogue = "zoo.toml";
    std::string address;
    std::string state = "zoo-state";
    std::string model;
    std::string reason;
    std::string out;
    std::string format = "json";
    bool act = false;
    bool feed = false;
    bool once = false;
    double interval = 60;

    [[nodiscard]] zoo::ZooOptions made() const {
        zoo::ZooOptions all = options;
        all.catalogue = catalogue;
        all.store = address;
        all.state = state;
        all.store_options = store.options();
        all.slurm.cpus = options.threads;
        return all;
    }
};

using ZooRun = std::function<int(Session&, const ZooArguments&)>;

/// Adds a command of the zoo with the options that all share.
CLI::App* add_zoo_command(CLI::App& group, Session& session, const std::string& name,
                          const std::string& description, const std::string& example, const ZooRun& run,
                          const std::shared_ptr<ZooArguments>& arguments);

void add_executor_options(CLI::App& command, ZooArguments& arguments);

void add_zoo_plans(CLI::App& group, Session& session);  ///< check, params, plan, submit
void add_zoo_watch(CLI::App& group,
                   Session& session);  ///< queue, watch, status, cancel, retry, hold, unhold, rebuild
void add_zoo_run(CLI::App& group, Session& session);  ///< run

}  // namespace kaiju::cli
