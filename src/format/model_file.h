// One view of a model on disk, whatever container it is in.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/file.h"
#include "format/tensor_info.h"

namespace kaiju::format {

/// What identifies the files of a model: SHA-256 (hex) and bytes of all of them as one.
struct SourceHash {
    std::string sha256;
    uint64_t size = 0;
};

/// A model file: a GGUF (whole, or split as NAME-00001-of-0000N.gguf and named by its first part) or a knot.
/// Payloads are mapped, not read. Containers know nothing of wires: the bytes of a KAIJU tensor are bytes
/// here.
class ModelFile {
  public:
    virtual ~ModelFile() = default;

    /// Opens by magic, not by file name. Throws missing, or bad_input naming the file and what is wrong in
    /// it.
    [[nodiscard]] static std::unique_ptr<ModelFile> open(const std::filesystem::path& path);

    /// Opens what is not a file: gives nothing for names that are files. Set once, before threads, by whoever
    /// knows object stores.
    using RemoteOpener = std::function<std::unique_ptr<ModelFile>(const std::string& name)>;
    static void set_remote_opener(RemoteOpener opener);

    [[nodiscard]] virtual const std::filesystem::path& path() const = 0;
    /// Every file the model is made of, in order: one, or the parts of a split GGUF.
    [[nodiscard]] std::vector<std::filesystem::path> files() const;
    [[nodiscard]] virtual std::span<const TensorInfo> tensors() const = 0;
    [[nodiscard]] virtual Bytes payload(size_t index) const = 0;
    /// Lets the pages of a payload go (see MappedFile::release).
    virtual void release(size_t index) const = 0;

    /// A complete GGUF v3 file with no tensors that carries the model's key-values (hyper-parameters,
    /// tokenizer, chat template); empty where the file has none (a knot may come without).
    [[nodiscard]] virtual Bytes key_values() const = 0;
    /// The same files, mapped.
    [[nodiscard]] virtual std::span<const MappedFile> mappings() const = 0;
    /// Where it is known without the mappings, which may then have holes where nothing was asked for; nothing
    /// for files.
    [[nodiscard]] virtual std::optional<SourceHash> source() const { return std::nullopt; }
    /// True for a knot, false for a GGUF.
    [[nodiscard]] virtual bool is_knot() const = 0;

    /// Index of the tensor of that name, if there is one.
    [[nodiscard]] std::optional<size_t> find(std::string_view name) const;
};

}  // namespace kaiju::format
