// The program's command tree for tests, without running anything.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cli/command.h"
#include "cli/program.h"

namespace kaiju::test {

/// Notes what was chosen and keeps what is printed.
class RecordingSession final : public cli::Session {
  public:
    Monitor& monitor() override { return monitor_; }
    [[nodiscard]] bool json() const override { return json_; }
    using cli::Session::print;
    void print(const nlohmann::json& answer) override { output += answer.dump() + "\n"; }
    void write(std::string_view text) override { output += text; }
    void choose(cli::Run run) override { chosen = std::move(run); }
    void choose_json() override { json_ = true; }

    cli::Run chosen;
    std::string output;

  private:
    Monitor monitor_;
    bool json_ = false;
};

/// The commands and groups right below `app`. CLI11 keeps a group of options as a command without a name: not
/// these.
inline std::vector<const CLI::App*> children(const CLI::App& app) {
    return app.get_subcommands([](const CLI::App* child) { return !child->get_name().empty(); });
}

/// Every command and group below `app`, depth first, with its full name ("kaiju knot info").
inline void for_each_command(const CLI::App& app, const std::string& path,
                             const std::function<void(const CLI::App&, const std::string&)>& visit) {
    for (const CLI::App* child : children(app)) {
        const std::string name = path + " " + child->get_name();
        visit(*child, name);
        for_each_command(*child, name, visit);
    }
}

}  // namespace kaiju::test
