// The native engine: this project's own graphs and kernels on ggml.
#pragma once

#include "format/model_file.h"
#include "runtime/engine.h"

namespace kaiju::runtime {

/// True for an architecture that the native engine runs.
[[nodiscard]] bool native_runs(std::string_view architecture);

/// Loads a GGUF or a knot. Stock tensors stay mapped and are multiplied by ggml's kernels where they lie
/// (never brought into another order), KAIJU tensors are packed for this project's. Throws missing for a
/// model without key-values, bad_input for an architecture, a type or a tensor that it does not know, naming
/// it.
[[nodiscard]] std::unique_ptr<Engine> load_native_engine(const std::filesystem::path& path,
                                                         const EngineOptions& options);

/// The same of a file that is open already. Messages do not name it.
[[nodiscard]] std::unique_ptr<Engine> load_native_engine(std::unique_ptr<format::ModelFile> file,
                                                         const EngineOptions& options);

}  // namespace kaiju::runtime
