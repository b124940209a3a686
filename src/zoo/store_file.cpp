#include "zoo/store_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/file.h"

namespace kaiju::zoo {

namespace fs = std::filesystem;

namespace {

constexpr size_t kPiece = size_t{8} << 20;
constexpr std::string_view kTemporary = ".tmp-";

class Descriptor {
  public:
    explicit Descriptor(const fs::path& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
    ~Descriptor() {
        if (fd_ >= 0) {
            ::close(fd_);
        }
    }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    [[nodiscard]] int get() const { return fd_; }

  private:
    int fd_;
};

Object describe(const std::string& key, const struct stat& status) {
    return {.key = key,
            .size = static_cast<uint64_t>(status.st_size),
            .etag = fmt::format("{:x}-{:x}-{:x}", status.st_size, status.st_ino,
                                status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec),
            .sha256 = {}};
}

/// What OutputFile leaves behind when the process is killed is not an object.
bool is_temporary(const std::string& name) {
    const size_t at = name.rfind(kTemporary);
    return (at != std::string::npos && at + kTemporary.size() + 6 >= name.size()) || name.ends_with(".part");
}

/// A folder. It must be there: a store whose disk is not mounted is away, and neither empty nor made anew.
class FileStore final : public ObjectStore {
  public:
    FileStore(const std::string& address, StoreOptions options)
        : address_(address),
          root_(address.starts_with("file://") ? address.substr(7) : address),
          options_(std::move(options)) {
        if (root_.empty()) {
            throw Error(ErrorCode::usage, "file:// names no folder");
        }
    }

    [[nodiscard]] const std::string& address() const override { return address_; }
    [[nodiscard]] const StoreOptions& options() const override { return options_; }

    std::optional<Object> head(const std::string& key) override {
        struct stat status {};
        const fs::path path = path_of(key);
        if (::stat(path.c_str(), &status) != 0) {
            if (errno == ENOENT || errno == ENOTDIR) {
                require_root();
                return std::nullopt;
            }
            fail(path, "look at");
        }
        if (!S_ISREG(status.st_mode)) {
            return std::nullopt;
        }
        return describe(key, status);
    }

    std::vector<std::byte> get(const std::string& key, uint64_t offset, uint64_t length,
                               const std::string& etag) override {
        const fs::path path = path_of(key);
        const Descriptor file(path);
        struct stat status {};
        if (file.get() < 0 || ::fstat(file.get(), &status) != 0) {
            const int cause = errno;
            require_root();
            errno = cause;
            fail(path, "open");
        }
        const Object now = describe(key, status);
        if (!etag.empty() && now.etag != etag) {
            throw Error(ErrorCode::bad_input,
                        fmt::format("{}: was changed while it was read", path.string()));
        }
        if (!fits(offset, length, now.size)) {
            throw Error(ErrorCode::bad_input, fmt::format("{}: {} bytes, {} at {} were asked for",
                                                          path.string(), now.size, length, offset));
        }
        std::vector<std::byte> bytes(length);
        for (uint64_t done = 0; done < length;) {
            const ssize_t got =
                ::pread(file.get(), bytes.data() + done, length - done, static_cast<off_t>(offset + done));
            if (got < 0 && errno == EINTR) {
                continue;
            }
            if (got <= 0) {
                fail(path, "read");
            }
            done += static_cast<uint64_t>(got);
        }
        return bytes;
    }

    std::vector<Object> list(const std::string& prefix) override {
        // Only the folder that the prefix names is walked, not the whole store.
        const size_t slash = prefix.rfind('/');
        const fs::path below = slash == std::string::npos ? root_ : root_ / prefix.substr(0, slash);
        std::vector<Object> found;
        std::error_code error;
        if (!fs::exists(below, error) && !error) {
            require_root();
            return found;
        }
        const auto root_length = root_.string().size() + (root_.string().ends_with('/') ? 0 : 1);
        for (auto at = fs::recursive_directory_iterator(below, error);
             at != fs::recursive_directory_iterator(); at.increment(error)) {
            struct stat status {};
            const std::string path = at->path().string();
            if (error || is_temporary(path) || ::stat(path.c_str(), &status) != 0 ||
                !S_ISREG(status.st_mode)) {
                continue;
            }
            std::string key = path.substr(root_length);
            if (key.starts_with(prefix)) {
                found.push_back(describe(key, status));
            }
        }
        if (error) {
            throw Error(ErrorCode::io, fmt::format("{}: cannot list: {}", below.string(), error.message()));
        }
        std::sort(found.begin(), found.end(), [](const Object& a, const Object& b) { return a.key < b.key; });
        return found;
    }

    bool put(const std::string& key, Bytes bytes, Condition condition) override {
        return write(key, condition, [&](OutputFile& file) { file.append(bytes); });
    }

    bool put_file(const std::string& key, const fs::path& source, Condition condition,
                  Monitor& monitor) override {
        const MappedFile from(source);
        monitor.begin("upload", from.bytes().size(), "bytes");
        const bool done = write(key, condition, [&](OutputFile& file) {
            file.reserve(from.bytes().size());
            for (uint64_t at = 0; at < from.bytes().size();) {
                monitor.check_cancelled();
                const Bytes piece =
                    from.bytes().subspan(at, std::min<uint64_t>(kPiece, from.bytes().size() - at));
                file.write_at(at, piece);
                monitor.advance(piece.size());
                from.release(piece);
                at += piece.size();
            }
        });
        monitor.end();
        return done;
    }

    void remove(const std::string& key) override {
        const fs::path path = path_of(key);
        if (::unlink(path.c_str()) != 0 && errno != ENOENT && errno != ENOTDIR) {
            fail(path, "remove");
        }
    }

  private:
    [[nodiscard]] fs::path path_of(const std::string& key) const {
        check_key(key);
        return root_ / key;
    }

    void require_root() const {
        std::error_code ignored;
        if (!fs::is_directory(root_, ignored)) {
            throw Error(ErrorCode::io,
                        fmt::format("{}: the store's folder is not there: mount it, or make it with mkdir",
                                    root_.string()));
        }
    }

    [[noreturn]] static void fail(const fs::path& path, std::string_view doing) {
        const int cause = errno;
        throw Error(cause == ENOENT ? ErrorCode::missing : ErrorCode::io,
                    fmt::format("{}: cannot {}: {}", path.string(), doing, std::strerror(cause)));
    }

    template <typename Fill>
    bool write(const std::string& key, Condition condition, Fill&& fill) {
        const fs::path path = path_of(key);
        require_root();
        std::error_code cause;
        fs::create_directories(path.parent_path(), cause);
        if (cause) {
            throw Error(ErrorCode::io, fmt::format("{}: cannot make the folder: {}",
                                                   path.parent_path().string(), cause.message()));
        }
        if (fs::is_directory(path, cause)) {
            throw Error(ErrorCode::usage, fmt::format("{}: is a folder, and no key", path.string()));
        }
        try {
            if (condition == Condition::absent) {
                OutputFile file(path);
                fill(file);
                file.commit();
                return true;
            }
            // OutputFile never replaces; the rename behind it does, in one step.
            static std::atomic<uint64_t> counter{0};
            const fs::path next =
                fmt::format("{}{}{:06}", path.string(), kTemporary,
                            (static_cast<uint64_t>(::getpid()) * 1000 + counter++) % 1'000'000);
            std::error_code ignored;
            fs::remove(next, ignored);
            OutputFile file(next);
            fill(file);
            file.commit();
            fs::rename(next, path);
            return true;
        } catch (const Error& error) {
            if (condition == Condition::absent && error.code() == ErrorCode::output_exists) {
                return false;
            }
            throw;
        }
    }

    std::string address_;
    fs::path root_;
    StoreOptions options_;
};

}  // namespace

std::unique_ptr<ObjectStore> open_file_store(const std::string& address, const StoreOptions& options) {
    return std::make_unique<FileStore>(address, options);
}

}  // namespace kaiju::zoo
