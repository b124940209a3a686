// The commands under kaiju lattice that have a file of their own.
#pragma once

#include "cli/command.h"

namespace kaiju::cli {

/// kaiju lattice gate
void add_lattice_gate(CLI::App& group, Session& session);

}  // namespace kaiju::cli
