// Whole model files from one container, or one type, to another.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/monitor.h"
#include "format/model_file.h"

namespace kaiju::codec {

/// What the two exports say when they are done.
struct ConvertReport {
    uint64_t tensors = 0;
    uint64_t converted = 0;  ///< tensors whose type changed
    uint64_t bytes = 0;      ///< size of the output
};

/// Packs a GGUF as a knot: every tensor verbatim, key-values as gguf_kv. Metadata: general (architecture,
/// name), source.model (sha256 over all parts, and size), created_by. Throws output_exists; bad_input, io.
ConvertReport pack_knot(const format::ModelFile& model, const std::filesystem::path& out,
                        std::string_view created_by, Monitor& monitor);

/// Writes a GGUF that stock llama.cpp loads: tensors of this project's wires dequantised and stored as
/// `type`, all others byte for byte. Where nothing is dequantised the key-values are the model's own,
/// unchanged; otherwise general.file_type follows `type`. Rows are converted in parallel, a few at a time.
/// Throws output_exists; bad_input naming the tensor (rows that do not divide into the type's blocks, weights
/// that it cannot hold); usage where `type` cannot be made.
ConvertReport export_gguf(const format::ModelFile& model, const std::filesystem::path& out,
                          std::string_view type, int threads, Monitor& monitor);

/// Writes a GGUF whose matrices (two dimensions and more) are all of `type`: F16, BF16 or F32, dequantised
/// from whatever they are. Vectors (norms, biases) stay as they are. The truth that encodes and gates compare
/// with.
ConvertReport dequantise_gguf(const format::ModelFile& model, const std::filesystem::path& out,
                              std::string_view type, int threads, Monitor& monitor);

}  // namespace kaiju::codec
