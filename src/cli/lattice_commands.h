// The commands under kaiju lattice that have a file of their own, and what they share.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"

namespace kaiju::cli {

/// kaiju lattice gate
void add_lattice_gate(CLI::App& group, Session& session);

/// kaiju lattice shells
void add_lattice_shells(CLI::App& group, Session& session);

/// About `wanted` blocks of 24 consecutive weights, as they are, spread over all matrices of a model. Throws
/// bad_input where it has none.
[[nodiscard]] std::vector<float> model_blocks(const std::string& path, size_t wanted);

}  // namespace kaiju::cli
