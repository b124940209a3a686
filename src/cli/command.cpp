#include "cli/command.h"

#include <fmt/format.h>

#include <utility>

#include "base/parallel.h"

namespace kaiju::cli {

CLI::App* add_command(CLI::App& parent, Session& session, const std::string& name,
                      const std::string& description, const std::string& example, Run run) {
    CLI::App* command = parent.add_subcommand(name, description);
    command->footer("Example:\n  " + example);
    command->fallthrough();  // -q and -v belong to the program and may stand anywhere
    // Running it here would unwind the command's errors through the parser: it is only noted.
    command->callback([&session, run = std::move(run)] { session.choose(run); });
    return command;
}

CLI::App* add_group(CLI::App& parent, const std::string& name, const std::string& description) {
    CLI::App* group = parent.add_subcommand(name, description);
    group->require_subcommand(1);
    group->fallthrough();
    group->footer(fmt::format("\"kaiju {} COMMAND --help\" tells more of a command.", name));
    return group;
}

void add_json(CLI::App& command, Session& session) {
    command.add_flag_callback(
        "--json", [&session] { session.choose_json(); }, "Answer with one JSON object on standard output");
}

void add_threads(CLI::App& command, int& threads) {
    threads = default_threads();
    command
        .add_option_function<int>(
            "-t,--threads", [&threads](int given) { threads = given > 0 ? given : default_threads(); },
            "Threads to work with (0: all processors of this process)")
        ->type_name("N")
        ->default_str("0")
        ->check(between(0, 4096));
}

}  // namespace kaiju::cli
