// kaiju zoo ...: many models, unattended.
#include "cli/zoo_commands.h"

#include "zoo/job.h"

namespace kaiju::cli {

CLI::App* add_zoo_command(CLI::App& group, Session& session, const std::string& name,
                          const std::string& description, const std::string& example, const ZooRun& run,
                          const std::shared_ptr<ZooArguments>& arguments) {
    CLI::App* command = add_command(group, session, name, description, example,
                                    [arguments, run](Session& current) { return run(current, *arguments); });
    command->add_option("--catalogue", arguments->catalogue, "The list of models")
        ->capture_default_str()
        ->type_name("FILE");
    command
        ->add_option("--store", arguments->address,
                     "Where models and results are (default: as the catalogue says)")
        ->type_name("ADDRESS");
    command->add_option("--state", arguments->state, "Folder of the state and of the jobs")
        ->capture_default_str()
        ->type_name("FOLDER");
    add_store_options(*command, arguments->store);
    add_json(*command, session);
    return command;
}

void add_zoo_run(CLI::App& group, Session& session) {
    struct Options {
        std::string folder;
        std::string step;
        std::optional<uint64_t> shard;
        bool conclude = false;
    };
    auto options = std::make_shared<Options>();
    CLI::App* command = add_command(
        group, session, "run", "Carry out what is left of a job (executors call this)",
        "kaiju zoo run zoo-state/jobs/smollm2-kaiju1", [options](Session& current) {
            return options->conclude
                       ? zoo::conclude_job(options->folder, current.monitor())
                       : zoo::run_job(options->folder, options->step, options->shard, current.monitor());
        });
    command->add_option("folder", options->folder, "The job's folder")->required()->type_name("FOLDER");
    command->add_option("--step", options->step, "Only this step");
    command->add_option("--shard", options->shard, "Only this part of a sharded step")->type_name("I");
    command->add_flag("--conclude", options->conclude, "Write the verdict of a job that ended without one");
}

void add_zoo(CLI::App& app, Session& session) {
    CLI::App* group = add_group(app, "zoo", "Many models, unattended");
    add_zoo_plans(*group, session);
    add_zoo_watch(*group, session);
    add_zoo_run(*group, session);
}

}  // namespace kaiju::cli
