// The program: parses, runs the command, turns errors into messages and exit codes.
#pragma once

#include "cli/command.h"

namespace kaiju::cli {

/// Runs one command line; the value is the exit code of the process (docs/exit-codes.md). Nothing is thrown.
int run_program(int argc, char** argv);

/// Adds every command to `app`: the tree that parsing, --help and completions share.
void add_commands(CLI::App& app, Session& session);

/// The answer to --version: this program and every library in it, one "name version" per line.
[[nodiscard]] std::string version_text();

}  // namespace kaiju::cli
