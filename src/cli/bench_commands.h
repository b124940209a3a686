// The commands under kaiju bench, one file each.
#pragma once

#include "cli/command.h"

namespace kaiju::cli {

/// kaiju bench decoder
void add_bench_decoder(CLI::App& group, Session& session);
/// kaiju bench encode
void add_bench_encode(CLI::App& group, Session& session);
/// kaiju bench kernel
void add_bench_kernel(CLI::App& group, Session& session);
/// kaiju bench model
void add_bench_model(CLI::App& group, Session& session);

}  // namespace kaiju::cli
