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

/// A matrix read from such a file ('<f4', C order; a vector is one row). The values stay mapped.
class NpyFile {
  public:
    /// Throws missing, or bad_input naming the file and what its header says that is not read.
    explicit NpyFile(const std::filesystem::path& path);

    [[nodiscard]] uint64_t rows() const { return rows_; }
    [[nodiscard]] uint64_t cols() const { return cols_; }
    /// rows x cols values of f32, row-major, little-endian, at any alignment.
    [[nodiscard]] Bytes values() const { return values_; }

  private:
    MappedFile file_;
    uint64_t rows_ = 0;
    uint64_t cols_ = 0;
    Bytes values_;
};

}  // namespace kaiju::format
