// A knot as a GGUF file in anonymous memory, for engines that know stock types only.
#pragma once

#include <cstdio>
#include <memory>

#include "base/bytes.h"
#include "base/monitor.h"
#include "format/model_file.h"
#include "runtime/engine.h"

namespace kaiju::runtime {

struct FileCloser {
    void operator()(std::FILE* file) const { std::fclose(file); }
};
using FilePtr = std::unique_ptr<std::FILE, FileCloser>;

/// Writes a complete GGUF v3 file into memory that has no name and vanishes with its last user
/// (memfd_create), and returns it open at its start. KAIJU tensors are decoded to `weight_type`, all others
/// copied. Memory: the size of the file. Throws missing where the model carries no key-values, bad_input for
/// tensors that GGUF cannot hold, io where memory is not to be had.
[[nodiscard]] FilePtr make_memory_gguf(const format::ModelFile& model, WeightType weight_type, int threads,
                                       Monitor& monitor);

/// These bytes as such a file.
[[nodiscard]] FilePtr make_memory_file(Bytes bytes);

}  // namespace kaiju::runtime
