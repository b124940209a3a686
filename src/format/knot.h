// Reading .knot files (docs/knot.md).
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "format/model_file.h"

namespace kaiju::format {

inline constexpr std::string_view kKeyValuesName = "gguf_kv";
inline constexpr std::string_view kKeyValuesType = "GGUF_KV";

/// The first 64 bytes of a knot.
struct KnotHeader {
    static constexpr uint64_t kBytes = 64;
    static constexpr uint32_t kVersion = 1;

    uint64_t meta_offset = 0;
    uint64_t meta_length = 0;
    uint64_t toc_offset = 0;
    uint64_t toc_length = 0;
    uint64_t data_offset = kBytes;
    uint64_t file_length = 0;
    uint64_t checksum = 0;  ///< XXH3-64 of the TOC bytes followed by the metadata bytes

    /// Parses the header of a file of `actual_length` bytes and checks every field that it can without the
    /// rest. Throws bad_input.
    [[nodiscard]] static KnotHeader parse(Bytes first, uint64_t actual_length);
    [[nodiscard]] std::vector<std::byte> bytes() const;
};

/// One entry of the table of contents.
struct KnotEntry {
    TensorInfo info;
    uint64_t offset = 0;
    uint64_t xxh3 = 0;  ///< of the payload
};

/// Everything of a knot but its payloads.
struct KnotTable {
    KnotHeader header;
    std::vector<KnotEntry> entries;
    std::string metadata;  ///< a JSON object, checked
};

/// Throws bad_input naming the entry whose name, type, shape or nbytes the format does not allow. Of a type
/// this library does not know (and of KAIJU types, whose size only their payload tells) nbytes must only not
/// be zero.
void check_entry(const TensorInfo& info);

/// Parses and checks header, table and metadata of a whole file; payloads are not read. Throws bad_input.
[[nodiscard]] KnotTable parse_knot(Bytes file);

/// True where the bytes begin like a knot.
[[nodiscard]] bool looks_like_knot(Bytes file);

/// A knot as a model: tensors() are all entries but gguf_kv. Opening checks the structure, not the payloads'
/// bytes; types that nobody knows are listed (docs/knot.md).
class KnotFile final : public ModelFile {
  public:
    /// Throws missing, or bad_input naming the file and the entry.
    explicit KnotFile(const std::filesystem::path& path);

    [[nodiscard]] const std::filesystem::path& path() const override { return file_.path(); }
    [[nodiscard]] std::span<const TensorInfo> tensors() const override { return tensors_; }
    /// Checked against its checksum when it is asked for first: damaged bytes are never used silently. Throws
    /// bad_input naming file and entry.
    [[nodiscard]] Bytes payload(size_t index) const override;
    void release(size_t index) const override;
    [[nodiscard]] Bytes key_values() const override { return key_values_; }
    [[nodiscard]] std::span<const MappedFile> mappings() const override { return {&file_, 1}; }
    [[nodiscard]] bool is_knot() const override { return true; }

    /// All entries, gguf_kv among them, in the order of the table.
    [[nodiscard]] std::span<const KnotEntry> entries() const { return table_.entries; }
    /// Unchecked, for whoever checks it (codec::verify).
    [[nodiscard]] Bytes entry_payload(const KnotEntry& entry) const;
    /// Throws bad_input unless the payload has the checksum that the table says; names neither file nor
    /// entry.
    void check_payload(const KnotEntry& entry) const;
    void release(const KnotEntry& entry) const { file_.release(entry_payload(entry)); }
    /// The metadata, a JSON object as text.
    [[nodiscard]] const std::string& metadata() const { return table_.metadata; }
    [[nodiscard]] const KnotHeader& header() const { return table_.header; }

  private:
    void require_intact(const KnotEntry& entry) const;

    MappedFile file_;
    KnotTable table_;
    std::vector<TensorInfo> tensors_;
    std::vector<size_t> entry_of_;                 ///< by tensor, index into the table
    std::unique_ptr<std::atomic<bool>[]> intact_;  ///< by tensor: its payload was found to fit its checksum
    Bytes key_values_;
};

}  // namespace kaiju::format
