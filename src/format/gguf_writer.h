// Writing GGUF files: key-values copied verbatim or made here, payloads in any order.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "format/gguf_scan.h"
#include "format/tensor_info.h"

namespace kaiju::format {

/// Collects key-values in the form of a GGUF v3 file. A record taken from another file keeps its bytes:
/// ggml's own copying function would cut strings at an embedded zero byte.
class KeyValueWriter {
  public:
    void add(const GgufKeyValue& kv);
    /// All key-values of a GGUF file (see KeyValues). Throws bad_input.
    void add_all(Bytes gguf);
    void add_string(std::string_view key, std::string_view text);
    void add_u32(std::string_view key, uint32_t value);
    void add_strings(std::string_view key, std::span<const std::string> texts);

    [[nodiscard]] uint64_t count() const { return count_; }
    /// The records one after another.
    [[nodiscard]] const std::vector<std::byte>& records() const { return records_.bytes(); }
    /// A whole GGUF file with these key-values and no tensors, padded to its alignment as ggml pads it.
    [[nodiscard]] std::vector<std::byte> file() const;

  private:
    void begin(std::string_view key, GgufType type);
    void text(std::string_view text);

    ByteWriter records_;
    uint64_t count_ = 0;
};

/// Writes one GGUF file of stock types. The header is fixed by key-values and tensor list alone, so payloads
/// may come in any order and in pieces. Nothing has the final name before commit.
class GgufWriter {
  public:
    /// Throws output_exists; bad_input naming the tensor whose type is not stock, or whose nbytes is not what
    /// type and shape imply; io where the disk has no room.
    GgufWriter(const std::filesystem::path& path, const KeyValueWriter& key_values,
               std::span<const TensorInfo> tensors);

    /// Writes part of a payload at `offset` within it. Thread-safe. Throws internal where it would run past
    /// its end.
    void write(size_t tensor, uint64_t offset, Bytes bytes);
    void commit() { file_.commit(); }
    [[nodiscard]] uint64_t size() const { return size_; }

  private:
    OutputFile file_;
    std::vector<uint64_t> offsets_;
    std::vector<uint64_t> lengths_;
    uint64_t size_ = 0;
};

}  // namespace kaiju::format
