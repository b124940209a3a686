// Matrices as NumPy files, version 1.0.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "base/file.h"

namespace kaiju::format {

/// Writes a rows x cols matrix of f32 in C order, row by row. Nothing has the final name before commit.
class NpyWriter {
  public:
    /// Throws output_exists, or io where the disk has no room.
    NpyWriter(const std::filesystem::path& path, uint64_t rows, uint64_t cols);

    /// Values of whole rows from `first` on. Thread-safe.
    void write_rows(uint64_t first, std::span<const float> values);
    void commit() { file_.commit(); }

  private:
    OutputFile file_;
    uint64_t cols_;
    uint64_t data_ = 0;  ///< where the values begin
};

}  // namespace kaiju::format
