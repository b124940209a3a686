// What every subcommand file shares. A command lives in one file, declares itself with add_command and stays
// thin: it turns options into a call of the library and the answer into text or JSON.
#pragma once

#include <concepts>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/monitor.h"
#include "cli/numbers.h"

namespace kaiju::cli {

class Session;

/// What a command does once its options are parsed; the value is the exit code (0 fine, 1 a gate said no).
/// Errors are thrown as kaiju::Error and mapped in one place (docs/exit-codes.md).
using Run = std::function<int(Session&)>;

/// One run of the program: where progress and answers go.
class Session {
  public:
    virtual ~Session() = default;
    /// Progress bar with rate and time left on a terminal, plain lines elsewhere; all of it on standard
    /// error.
    virtual Monitor& monitor() = 0;
    /// True where --json was given.
    [[nodiscard]] virtual bool json() const = 0;
    /// The answer, on standard output, written through at once: one JSON object on one line, or text as it
    /// is.
    virtual void print(const nlohmann::json& answer) = 0;
    virtual void write(std::string_view text) = 0;
    /// `write`; a template, since text would convert to JSON just as well.
    template <std::convertible_to<std::string_view> Text>
    void print(const Text& text) {
        write(text);
    }

    /// Called while options are parsed: by add_command with what to run, by add_json where --json is given.
    virtual void choose(Run run) = 0;
    virtual void choose_json() = 0;
};

/// Adds subcommand `name` under `parent`. `example` is a full command line, shown under "Example:" by --help.
/// Add options to what is returned; keep their values in a std::shared_ptr<Options> that `run` captures.
CLI::App* add_command(CLI::App& parent, Session& session, const std::string& name,
                      const std::string& description, const std::string& example, Run run);

/// Adds a command that only groups others (kaiju knot ..., kaiju lattice ...).
CLI::App* add_group(CLI::App& parent, const std::string& name, const std::string& description);

/// Gives a command the flag --json.
void add_json(CLI::App& command, Session& session);

/// Gives a command the option --threads. `threads` is a positive number afterwards: absent or 0 means all
/// processors of this process.
void add_threads(CLI::App& command, int& threads);

// One per subcommand file.
void add_chat(CLI::App& app, Session& session);
void add_assemble(CLI::App& app, Session& session);
void add_encode(CLI::App& app, Session& session);
void add_encode_tensor(CLI::App& app, Session& session);
void add_f16(CLI::App& app, Session& session);
void add_gate(CLI::App& app, Session& session);
void add_generate(CLI::App& app, Session& session);
void add_imatrix(CLI::App& app, Session& session);
void add_knot(CLI::App& app, Session& session);
void add_ladder(CLI::App& app, Session& session);
void add_lattice(CLI::App& app, Session& session);
void add_ppl(CLI::App& app, Session& session);
void add_smoke(CLI::App& app, Session& session);
void add_store(CLI::App& app, Session& session);
void add_zoo(CLI::App& app, Session& session);
void add_bench(CLI::App& app, Session& session);
void add_score(CLI::App& app, Session& session);
void add_sensitivity(CLI::App& app, Session& session);
void add_shootout(CLI::App& app, Session& session);
void add_sketch(CLI::App& app, Session& session);
void add_capture(CLI::App& app, Session& session);
void add_completions(CLI::App& app, Session& session);

}  // namespace kaiju::cli
