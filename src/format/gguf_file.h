// GGUF model files, whole or split, as a ModelFile.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "base/file.h"
#include "format/gguf_scan.h"
#include "format/model_file.h"

namespace kaiju::format {

/// True where the bytes begin like a GGUF file.
[[nodiscard]] bool looks_like_gguf(Bytes file);

/// The header of a whole GGUF file: walked (scan_gguf), compared with the length at hand, and read by ggml
/// too, which must see the same table. Throws bad_input.
[[nodiscard]] GgufScan read_gguf_header(Bytes file);

/// A GGUF file. A split one (NAME-00001-of-0000N.gguf) is opened by its first part and read as one model: the
/// tensors of all parts in order, the key-values of the first without its `split.*` keys.
class GgufFile final : public ModelFile {
  public:
    /// Throws missing (also for a part that is not there) or bad_input, naming the file, and the tensor where
    /// it is about one. A file that ends before its last tensor is reported as truncated, with both lengths.
    explicit GgufFile(const std::filesystem::path& path);

    [[nodiscard]] const std::filesystem::path& path() const override { return path_; }
    [[nodiscard]] std::span<const TensorInfo> tensors() const override { return tensors_; }
    [[nodiscard]] Bytes payload(size_t index) const override { return payloads_.at(index); }
    void release(size_t index) const override;
    [[nodiscard]] Bytes key_values() const override { return key_values_; }
    [[nodiscard]] std::span<const MappedFile> mappings() const override { return files_; }
    [[nodiscard]] bool is_knot() const override { return false; }

  private:
    void add_part(const std::filesystem::path& path, uint64_t part, uint64_t parts);

    std::filesystem::path path_;
    std::vector<MappedFile> files_;
    std::vector<TensorInfo> tensors_;
    std::vector<Bytes> payloads_;
    std::vector<size_t> file_of_;  ///< by tensor, index into files_
    std::vector<std::byte> key_values_;
};

}  // namespace kaiju::format
