#include "base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

#include "base/checksum.h"

namespace kaiju {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void fail(const fs::path& path, std::string_view doing) {
    const int cause = errno;
    const ErrorCode code = cause == ENOENT   ? ErrorCode::missing
                           : cause == EEXIST ? ErrorCode::output_exists
                                             : ErrorCode::io;
    std::string message = fmt::format("{}: cannot {}: {}", path.string(), doing, std::strerror(cause));
    if (cause == ENOSPC || cause == EDQUOT) {
        message += " (free space there and start again)";
    }
    throw Error(code, message);
}

/// A file descriptor that closes itself.
class Descriptor {
  public:
    Descriptor(const fs::path& path, int flags) : fd_(::open(path.c_str(), flags | O_CLOEXEC)) {
        if (fd_ < 0) {
            fail(path, "open");
        }
    }
    ~Descriptor() { ::close(fd_); }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    [[nodiscard]] int get() const { return fd_; }

  private:
    int fd_;
};

void sync_folder_of(const fs::path& path) {
    const fs::path folder = path.parent_path().empty() ? fs::path(".") : path.parent_path();
    const Descriptor fd(folder, O_RDONLY | O_DIRECTORY);
    ::fsync(fd.get());
}

}  // namespace

MappedFile::MappedFile(const fs::path& path) : path_(path) {
    const Descriptor fd(path, O_RDONLY | O_NONBLOCK);  // a FIFO would wait here for somebody to write
    struct stat status {};
    if (::fstat(fd.get(), &status) != 0) {
        fail(path, "stat");
    }
    if (!S_ISREG(status.st_mode)) {
        throw Error(ErrorCode::bad_input, fmt::format("{}: not a regular file", path.string()));
    }
    size_ = static_cast<size_t>(status.st_size);
    if (size_ == 0) {
        return;
    }
    void* const at = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd.get(), 0);
    if (at == MAP_FAILED) {
        fail(path, "map");
    }
    data_ = static_cast<std::byte*>(at);
}

MappedFile::~MappedFile() {
    if (data_ != nullptr) {
        ::munmap(data_, size_);
    }
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
}

void MappedFile::release(Bytes part) const {
    const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    const auto offset = static_cast<size_t>(part.data() - data_);  // the mapping itself starts on a page
    const size_t begin = (offset + page - 1) / page * page;
    const size_t end = (offset + part.size()) / page * page;
    if (begin < end) {
        ::madvise(data_ + begin, end - begin, MADV_DONTNEED);
    }
}

OutputFile::OutputFile(const fs::path& target, OnAbandon on_abandon)
    : target_(target), on_abandon_(on_abandon) {
    require_absent(target);
    if (on_abandon == OnAbandon::keep) {
        temporary_ = target;
        temporary_ += ".part";
        fd_ = ::open(temporary_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
        if (fd_ >= 0 && ::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
            ::close(fd_);
            throw Error(ErrorCode::busy,
                        fmt::format("{}: another process is writing it", temporary_.string()));
        }
    } else {
        std::string name = target.string() + ".tmp-XXXXXX";
        fd_ = ::mkostemp(name.data(), O_CLOEXEC);
        temporary_ = name;
        if (fd_ >= 0) {
            ::fchmod(fd_, 0644);
        }
    }
    if (fd_ < 0) {
        fail(target, "create");
    }
    end_ = size();
}

OutputFile::~OutputFile() {
    if (fd_ >= 0) {
        ::close(fd_);
    }
    if (!committed_ && on_abandon_ == OnAbandon::remove) {
        ::unlink(temporary_.c_str());
    }
}

void OutputFile::write_at(uint64_t offset, Bytes bytes) {
    while (!bytes.empty()) {
        const ssize_t written = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
        if (written < 0) {
            if (errno == EINTR) {
                continue;
            }
            fail(temporary_, "write");
        }
        bytes = bytes.subspan(static_cast<size_t>(written));
        offset += static_cast<uint64_t>(written);
    }
}

void OutputFile::append(Bytes bytes) {
    write_at(end_, bytes);
    end_ += bytes.size();
}

void OutputFile::reserve(uint64_t length) {
    const int cause = length == 0 ? 0 : ::posix_fallocate(fd_, 0, static_cast<off_t>(length));
    if (cause != 0) {
        errno = cause;
        fail(temporary_, fmt::format("reserve {} bytes", length));
    }
}

void OutputFile::truncate(uint64_t length) {
    if (::ftruncate(fd_, static_cast<off_t>(length)) != 0) {
        fail(temporary_, "truncate");
    }
    end_ = length;
}

void OutputFile::sync() {
    if (::fdatasync(fd_) != 0) {
        fail(temporary_, "flush");
    }
}

uint64_t OutputFile::size() const {
    struct stat status {};
    if (::fstat(fd_, &status) != 0) {
        fail(temporary_, "stat");
    }
    return static_cast<uint64_t>(status.st_size);
}

void OutputFile::commit() {
    if (::fsync(fd_) != 0) {
        fail(temporary_, "flush");
    }
    // link + unlink and not rename: rename would replace a file that appeared meanwhile. Where the file
    // system has no links (some network mounts), renameat2 with RENAME_NOREPLACE does the same.
    if (::link(temporary_.c_str(), target_.c_str()) == 0) {
        ::unlink(temporary_.c_str());
    } else if (errno == EEXIST ||
               ::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, target_.c_str(), RENAME_NOREPLACE) != 0) {
        fail(target_, "create");
    }
    committed_ = true;
    sync_folder_of(target_);
}

void require_absent(const fs::path& path) {
    std::error_code error;
    const fs::file_type type = fs::symlink_status(path, error).type();
    if (type == fs::file_type::none) {
        throw Error(ErrorCode::io, fmt::format("{}: cannot be created: {}", path.string(), error.message()));
    }
    if (type != fs::file_type::not_found) {
        throw Error(
            ErrorCode::output_exists,
            fmt::format(
                "{}: already exists; nothing is ever overwritten: choose another name or move it away",
                path.string()));
    }
}

void require_distinct(std::initializer_list<fs::path> paths) {
    std::map<fs::path, fs::path> seen;
    for (const fs::path& path : paths) {
        if (path.empty()) {
            continue;
        }
        const fs::path whole = fs::absolute(path).lexically_normal();
        std::error_code error;
        const fs::path folder = fs::canonical(whole.parent_path(), error);  // through symbolic links
        const auto [other, added] =
            seen.try_emplace((error ? whole.parent_path() : folder) / whole.filename(), path);
        if (!added) {
            throw Error(ErrorCode::usage, other->second == path
                                              ? fmt::format("{}: two outputs name this file", path.string())
                                              : fmt::format("{} and {}: two outputs name one file",
                                                            other->second.string(), path.string()));
        }
    }
}

void require_outputs(std::initializer_list<fs::path> paths) {
    require_distinct(paths);
    for (const fs::path& path : paths) {
        if (!path.empty()) {
            const OutputFile probe(path);
        }
    }
}

std::string read_text(const fs::path& path, uint64_t limit) {
    const MappedFile file(path);
    if (file.bytes().size() > limit) {
        throw Error(ErrorCode::bad_input, fmt::format("{}: {} bytes, more than the {} that are read",
                                                      path.string(), file.bytes().size(), limit));
    }
    return std::string(as_text(file.bytes()));
}

void write_new_file(const fs::path& path, std::string_view text) {
    OutputFile file(path);
    file.append(std::as_bytes(std::span(text)));
    file.commit();
}

std::string sha256_file(const fs::path& path) {
    constexpr size_t kPiece = size_t{1} << 24;
    const MappedFile file(path);
    Sha256 hash;
    for (Bytes rest = file.bytes(); !rest.empty();) {
        const Bytes piece = rest.first(std::min(kPiece, rest.size()));
        hash.update(piece);
        file.release(piece);
        rest = rest.subspan(piece.size());
    }
    return hash.hex();
}

}  // namespace kaiju
