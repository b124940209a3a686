#include "cli/program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <nlohmann/json.hpp>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "cli/progress.h"
#include "zoo/remote_model.h"

namespace kaiju::cli {

namespace {

/// The exit code of a process that SIGPIPE killed, which is what a closed pipe means to a shell.
constexpr int kBrokenPipe = 128 + 13;

/// Standard output was closed by its reader. No error of ours, so it is not a kaiju::Error and is not
/// reported.
class BrokenPipe : public std::exception {};

class ProgramSession final : public Session {
  public:
    using Session::print;
    Monitor& monitor() override { return progress_; }
    [[nodiscard]] bool json() const override { return json_; }

    void print(const nlohmann::json& answer) override {
        // Names come from files and need not be UTF-8: replacing what is not keeps the answer valid JSON.
        write(answer.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
    }

    void write(std::string_view text) override {
        while (!text.empty()) {
            const ssize_t count = ::write(STDOUT_FILENO, text.data(), text.size());
            if (count >= 0) {
                text.remove_prefix(static_cast<size_t>(count));
            } else if (errno == EPIPE) {
                throw BrokenPipe();
            } else if (errno != EINTR) {
                throw Error(ErrorCode::io, fmt::format("standard output: {}", std::strerror(errno)));
            }
        }
    }

    void choose(Run run) override { run_ = std::move(run); }
    void choose_json() override { json_ = true; }

    Progress& progress() { return progress_; }
    int run_chosen() { return run_(*this); }

  private:
    Progress progress_ = Progress::for_standard_error();
    bool json_ = false;
    Run run_;
};

std::string_view code_name(ErrorCode code) {
    switch (code) {
        case ErrorCode::usage:
            return "usage";
        case ErrorCode::bad_input:
            return "bad_input";
        case ErrorCode::output_exists:
            return "output_exists";
        case ErrorCode::missing:
            return "missing";
        case ErrorCode::busy:
            return "busy";
        case ErrorCode::io:
            return "io";
        case ErrorCode::interrupted:
            return "interrupted";
        case ErrorCode::internal:
            break;
    }
    return "internal";
}

/// Tells of a failure: a line on standard error and, where --json was given, {"error": ...} on standard
/// output, so that a program which reads the answer finds the reason in the same place.
int report(ProgramSession& session, ErrorCode code, std::string_view message) {
    session.progress().error(message);
    if (session.json()) {
        try {
            session.print(nlohmann::json{{"error",
                                          {{"code", static_cast<int>(code)},
                                           {"name", code_name(code)},
                                           {"message", std::string(message)}}}});
        } catch (const std::exception&) {
            // Nobody reads standard output any more: the message above and the exit code have to do.
        }
    }
    return static_cast<int>(code);
}

/// The one place where anything thrown becomes a message and an exit code. Called from a catch block.
int report_current_exception(ProgramSession& session) {
    try {
        throw;
    } catch (const BrokenPipe&) {
        return kBrokenPipe;
    } catch (const Error& error) {
        return report(session, error.code(), error.what());
    } catch (const std::bad_alloc&) {
        return report(session, ErrorCode::io, "out of memory");
    } catch (
        const std::system_error& error) {  // std::filesystem: a name too long, a folder that may not be read
        return report(session, ErrorCode::io, error.what());
    } catch (const std::exception& error) {
        return report(session, ErrorCode::internal, fmt::format("internal error: {}", error.what()));
    }
}

std::string complaint(const CLI::App& app, const CLI::ParseError& error) {
    const std::vector<std::string> unknown = app.remaining(true);
    // A word that is no command is an argument nobody takes, and CLI11 first misses the command.
    if (app.get_subcommands().empty() && !unknown.empty()) {
        return fmt::format("no command named '{}' (see kaiju --help)", unknown.front());
    }
    if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {  // its own text has them backwards
        return fmt::format("not expected: {} (see --help)", fmt::join(unknown, " "));
    }
    return fmt::format("{} (see --help)", error.what());
}

int parse_and_run(ProgramSession& session, CLI::App& app, int argc, char** argv) {
    try {
        app.parse(argc, argv);
    } catch (const CLI::CallForHelp&) {
        session.print(app.help());
        return 0;
    } catch (const CLI::CallForVersion&) {
        session.print(version_text());
        return 0;
    } catch (const CLI::ParseError& error) {
        const auto given = std::span(argv, static_cast<size_t>(argc));
        if (std::any_of(given.begin(), given.end(),
                        [](const char* one) { return std::string_view(one) == "--json"; })) {
            session.choose_json();
        }
        return report(session, ErrorCode::usage, complaint(app, error));
    }
    return session.run_chosen();
}

/// An empty value is a shell variable that was not set: no file, and no number (CLI11 reads it as 0).
void refuse_empty_values(CLI::App& app) {
    for (CLI::Option* option : app.get_options()) {
        const std::string type = option->get_type_name();
        if (type.starts_with("INT") || type.starts_with("UINT") || type.starts_with("FLOAT") || type == "N" ||
            type == "I" || type.starts_with("N:")) {
            option->check([](const std::string& given) {
                return given.empty() ? std::string("nothing where a number should be") : std::string();
            });
        }
        if (type.starts_with("FILE") || type.starts_with("FOLDER") || type.starts_with("ADDRESS")) {
            option->check([](const std::string& given) {
                return given.empty() ? std::string("an empty name") : std::string();
            });
        }
    }
    for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
        refuse_empty_values(*command);
    }
}

}  // namespace

void add_commands(CLI::App& app, Session& session) {
    add_f16(app, session);
    add_imatrix(app, session);
    add_capture(app, session);
    add_sketch(app, session);
    add_encode(app, session);
    add_encode_tensor(app, session);
    add_assemble(app, session);
    add_knot(app, session);
    add_ppl(app, session);
    add_gate(app, session);
    add_score(app, session);
    add_sensitivity(app, session);
    add_shootout(app, session);
    add_smoke(app, session);
    add_generate(app, session);
    add_chat(app, session);
    add_lattice(app, session);
    add_store(app, session);
    add_ladder(app, session);
    add_zoo(app, session);
    add_bench(app, session);
    add_completions(app, session);
    refuse_empty_values(app);
}

namespace {

/// A program may be started with its standard streams closed. Then the first file that it opens would take
/// their place, and messages would land in it: a closed standard error becomes one that takes everything, and
/// the other two become streams that fail, so that a lost answer or a lost question is still an error.
void hold_standard_streams() {
    for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
        if (::fcntl(stream, F_GETFD) != -1) {
            continue;
        }
        const int held = ::open("/dev/null", stream == STDOUT_FILENO ? O_RDONLY : O_WRONLY);
        if (held >= 0 && held != stream) {
            ::dup2(held, stream);
            ::close(held);
        }
    }
}

}  // namespace

int run_program(int argc, char** argv) {
    hold_standard_streams();
    install_signal_handlers();
    zoo::allow_remote_models({});
    ProgramSession session;
    try {
        CLI::App app(
            "Compresses language models to about 3 bits per weight with the Leech lattice, and proves what "
            "it cost.",
            "kaiju");
        app.require_subcommand(1);
        app.set_version_flag("--version", version_text,
                             "Versions of this program and of every library in it");
        app.set_help_flag("-h,--help", "This text");
        app.footer("\"kaiju COMMAND --help\" tells more of a command.");
        app.add_flag_callback(
            "-q,--quiet", [&session] { session.progress().set_verbosity(Verbosity::quiet); },
            "Only warnings and errors on standard error");
        app.add_flag_callback(
            "-v,--verbose", [&session] { session.progress().set_verbosity(Verbosity::verbose); },
            "Times and peak memory on standard error");
        add_commands(app, session);
        return parse_and_run(session, app, argc, argv);
    } catch (...) {
        return report_current_exception(session);
    }
}

}  // namespace kaiju::cli
