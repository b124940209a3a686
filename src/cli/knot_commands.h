// The subcommands of `kaiju knot` that live in a file of their own.
#pragma once

#include "cli/command.h"

namespace kaiju::cli {

/// from-gguf and to-gguf.
void add_knot_conversions(CLI::App& group, Session& session);

/// A type as users write it ("q8_0", "F16") in the form of the type strings.
[[nodiscard]] std::string upper_case(std::string text);

/// Prints what a conversion did, as text or JSON.
void print_conversion(Session& session, const std::string& out, uint64_t tensors, uint64_t converted,
                      uint64_t bytes);

}  // namespace kaiju::cli
