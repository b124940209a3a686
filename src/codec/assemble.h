// The whole of parts: joins what `kaiju encode --shard` made.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <span>

#include "base/monitor.h"

namespace kaiju::codec {

struct AssembleReport {
    uint64_t tensors = 0;  ///< entries of the file, gguf_kv not counted
    uint64_t file_bytes = 0;
};

/// Joins all shards of one encode, in any order, into the knot that a single process would have written, byte
/// for byte. `telemetry` is what that process would have been told: the file is written, and its name goes
/// into the metadata; empty for none. Payloads are checked against their checksums on the way. Throws usage
/// where parts do not belong together or one is given twice, missing naming the shards that are not there,
/// bad_input, output_exists, io.
AssembleReport assemble(std::span<const std::filesystem::path> parts, const std::filesystem::path& out,
                        const std::filesystem::path& telemetry, Monitor& monitor);

}  // namespace kaiju::codec
