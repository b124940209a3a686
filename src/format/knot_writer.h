// Writes a .knot (docs/knot.md): payloads at offsets that the tensor list alone fixes, so that they may be
// written in any order, from several threads, and in a later run than the one that began.
#pragma once

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <vector>

#include "base/file.h"
#include "format/tensor_info.h"

namespace kaiju::format {

/// The entry that carries a model's key-values: name gguf_kv, type GGUF_KV. Its payload is
/// ModelFile::key_values().
[[nodiscard]] TensorInfo key_values_entry(Bytes key_values);

/// One knot in the making. Equal tensor lists, payloads and metadata give equal files, whatever the order of
/// writing.
class KnotWriter {
  public:
    /// Offsets of the payloads (multiples of 64, in list order), then one more: where the last one ends.
    /// Throws bad_input naming the entry whose name, shape or size the format does not allow.
    [[nodiscard]] static std::vector<uint64_t> plan(std::span<const TensorInfo> tensors);

    /// Length of the file that finish(metadata) would leave: what payloads and hashes are makes no
    /// difference, nor in the metadata what a number or text of the same length is.
    [[nodiscard]] static uint64_t planned_length(std::span<const TensorInfo> tensors,
                                                 const nlohmann::json& metadata);

    /// Opens the output and reserves its room on disk; list order is the order of the table and of the
    /// payloads. With OnAbandon::keep the file is "<path>.part": a writer made later for the same path and
    /// list goes on in it, and what was written stays. Throws output_exists, io, and what plan() throws.
    KnotWriter(const std::filesystem::path& path, std::vector<TensorInfo> tensors,
               OutputFile::OnAbandon on_abandon = OutputFile::OnAbandon::remove);

    /// Writes a whole payload. Thread-safe. Throws internal where the length is not the entry's nbytes.
    void write_payload(size_t index, Bytes payload);
    /// Writes part of a payload, `offset` bytes into it. Thread-safe. Throws internal where it would run past
    /// its end.
    void write_part(size_t index, uint64_t offset, Bytes part);

    /// Writes table, metadata (a JSON object; keys come out sorted) and header, and gives the file its name.
    /// Payloads that write_payload has not seen in this run are read back for their checksums. A payload
    /// never written is zeros: what counts as done is the caller's to know.
    void finish(const nlohmann::json& metadata);

    [[nodiscard]] std::span<const TensorInfo> tensors() const { return tensors_; }
    [[nodiscard]] uint64_t offset(size_t index) const { return offsets_.at(index); }
    [[nodiscard]] const std::filesystem::path& temporary() const { return file_.temporary(); }
    /// Length of the finished file; known after finish.
    [[nodiscard]] uint64_t file_length() const { return file_length_; }

  private:
    [[nodiscard]] uint64_t checksum_of(size_t index, const MappedFile& written) const;
    void clear_padding();

    std::vector<TensorInfo> tensors_;
    std::vector<uint64_t> offsets_;
    OutputFile file_;
    std::mutex mutex_;                                ///< guards checksums_
    std::vector<std::optional<uint64_t>> checksums_;  ///< of payloads written whole in this run
    uint64_t file_length_ = 0;
};

}  // namespace kaiju::format
