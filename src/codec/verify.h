// The whole check of a model file: what opening it does not look at.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/monitor.h"
#include "format/model_file.h"

namespace kaiju::codec {

/// What verify saw, for reports.
struct VerifyReport {
    struct OfType {
        uint64_t tensors = 0;
        uint64_t weights = 0;
        uint64_t bytes = 0;
    };
    uint64_t tensors = 0;
    uint64_t weights = 0;
    uint64_t payload_bytes = 0;
    std::map<std::string, OfType> types;
};

/// Reads every payload of an opened model: its checksum (knots have them), its type (unknown ones are
/// refused), and every block, scale, index and weight. The key-values must parse. Tensors are checked in
/// parallel and let go, so memory stays under a few tensors. Throws bad_input naming file, entry and place;
/// of several faults it names one in the tensor that comes first. Progress counts bytes.
VerifyReport verify(const format::ModelFile& model, int threads, Monitor& monitor);

}  // namespace kaiju::codec
