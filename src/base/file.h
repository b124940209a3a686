// Files: read-only mappings, and outputs that appear whole or not at all.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <string>

#include "base/bytes.h"

namespace kaiju {

/// A whole file mapped read-only. Throws missing where it does not exist, io where it cannot be read.
class MappedFile {
  public:
    explicit MappedFile(const std::filesystem::path& path);
    ~MappedFile();
    MappedFile(MappedFile&& other) noexcept;
    MappedFile& operator=(MappedFile&& other) noexcept;
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;

    [[nodiscard]] Bytes bytes() const { return {data_, size_}; }
    [[nodiscard]] const std::filesystem::path& path() const { return path_; }

    /// Tells the kernel that these pages are not needed again soon, so that a pass over a model larger than
    /// memory leaves only what it is working on resident. The bytes stay readable.
    void release(Bytes part) const;

  private:
    std::filesystem::path path_;
    std::byte* data_ = nullptr;
    size_t size_ = 0;
};

/// An open file that will become `target` by one rename. It is written under a temporary name in the same
/// folder. `keep` names that file "<target>.part" and leaves it where it is when the object dies without
/// commit (so that a job can resume it); otherwise the name is unique and the file is removed.
class OutputFile {
  public:
    enum class OnAbandon { remove, keep };

    /// Throws output_exists if `target` is there, busy if another process holds its ".part".
    explicit OutputFile(const std::filesystem::path& target, OnAbandon on_abandon = OnAbandon::remove);
    ~OutputFile();
    OutputFile(const OutputFile&) = delete;
    OutputFile& operator=(const OutputFile&) = delete;

    /// Writes all bytes at an offset; may be called from several threads. Throws io, naming the file and the
    /// cause.
    void write_at(uint64_t offset, Bytes bytes);
    void append(Bytes bytes);
    /// Reserves disk space, so that a full disk is found before the work and not after it.
    void reserve(uint64_t length);
    void truncate(uint64_t length);
    void sync();
    [[nodiscard]] uint64_t size() const;

    /// Flushes to disk and gives the file its final name. Never replaces: throws output_exists if a file of
    /// that name has appeared meanwhile.
    void commit();
    [[nodiscard]] const std::filesystem::path& temporary() const { return temporary_; }

  private:
    std::filesystem::path target_;
    std::filesystem::path temporary_;
    OnAbandon on_abandon_;
    int fd_ = -1;
    uint64_t end_ = 0;
    bool committed_ = false;
};

/// Throws output_exists, telling what to do, if the path is there.
void require_absent(const std::filesystem::path& path);

/// Throws usage where two of the paths, however they are spelled, name one file. Empty ones name none.
void require_distinct(std::initializer_list<std::filesystem::path> paths);

/// Before any work: what will be written at its end can be. Every path that is not empty is free, its folder
/// takes new files, and no two are one file. Throws output_exists, usage, missing or io.
void require_outputs(std::initializer_list<std::filesystem::path> paths);

/// A whole small file. Throws missing or io; bad_input above `limit` bytes.
[[nodiscard]] std::string read_text(const std::filesystem::path& path, uint64_t limit = uint64_t{1} << 31);

/// Writes a whole small file through OutputFile: whole or not at all, never over an existing one.
void write_new_file(const std::filesystem::path& path, std::string_view text);

/// Lower-case hex SHA-256 of a file, read in pieces.
[[nodiscard]] std::string sha256_file(const std::filesystem::path& path);

}  // namespace kaiju
