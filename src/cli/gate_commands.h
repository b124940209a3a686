// The gates that have a file of their own.
#pragma once

#include "cli/command.h"

namespace kaiju::cli {

void add_gate_g3(CLI::App& group, Session& session);

}  // namespace kaiju::cli
