#include "zoo/remote_model.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/checksum.h"
#include "base/file.h"
#include "format/gguf_file.h"
#include "format/gguf_scan.h"
#include "format/key_values.h"
#include "format/knot.h"
#include "zoo/transfer.h"

namespace kaiju::zoo {

namespace fs = std::filesystem;

namespace {

constexpr uint64_t kFirstRead = uint64_t{1} << 18;
constexpr uint64_t kLongestHeader = uint64_t{256} << 20;

fs::path new_folder() {
    std::string name = (fs::temp_directory_path() / "kaiju-model-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
        throw Error(ErrorCode::io, fmt::format("{}: cannot be made: {}", name, std::strerror(errno)));
    }
    return name;
}

/// A file as long as an object, with holes where nothing has been fetched.
class SparseFile {
  public:
    SparseFile(const fs::path& path, uint64_t length)
        : path_(path), fd_(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600)) {
        if (fd_ < 0 || ::ftruncate(fd_, static_cast<off_t>(length)) != 0) {
            fail();
        }
    }
    ~SparseFile() {
        if (fd_ >= 0) {
            ::close(fd_);
        }
    }
    SparseFile(SparseFile&& other) noexcept
        : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}
    SparseFile(const SparseFile&) = delete;
    SparseFile& operator=(const SparseFile&) = delete;
    SparseFile& operator=(SparseFile&&) = delete;

    void write(uint64_t offset, Bytes bytes) const {
        while (!bytes.empty()) {
            const ssize_t count = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
            if (count < 0 && errno == EINTR) {
                continue;
            }
            if (count < 0) {
                fail();
            }
            bytes = bytes.subspan(static_cast<size_t>(count));
            offset += static_cast<uint64_t>(count);
        }
    }
    /// Gives the room back, where the file system can.
    void punch(uint64_t offset, uint64_t length) const {
        (void)::fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                          static_cast<off_t>(length));
    }

  private:
    [[noreturn]] void fail() const {
        throw Error(ErrorCode::io,
                    fmt::format("{}: {} (TMPDIR names the folder)", path_.string(), std::strerror(errno)));
    }
    fs::path path_;
    int fd_;
};

class RemoteModel final : public format::ModelFile {
  public:
    RemoteModel(const std::string& address, const StoreOptions& options) : address_(address) {
        const ObjectAddress split = split_address(address);
        store_ = open_store(split.store, options);
        const fs::path folder = new_folder();
        try {
            open(split.key, folder);
        } catch (...) {
            std::error_code ignored;
            fs::remove_all(folder, ignored);
            throw;
        }
        std::error_code ignored;
        fs::remove_all(folder, ignored);  // open files live on without a name, and go with this process
        fetched_.resize(inner_->tensors().size());
    }

    [[nodiscard]] const fs::path& path() const override { return address_; }
    [[nodiscard]] std::span<const format::TensorInfo> tensors() const override { return inner_->tensors(); }
    [[nodiscard]] Bytes key_values() const override { return inner_->key_values(); }
    [[nodiscard]] std::span<const MappedFile> mappings() const override { return inner_->mappings(); }
    [[nodiscard]] bool is_knot() const override { return inner_->is_knot(); }

    [[nodiscard]] Bytes payload(size_t index) const override {
        {
            const std::lock_guard lock(mutex_);
            if (!fetched_.at(index)) {
                fetch(place(index));
                fetched_[index] = true;
            }
        }
        return inner_->payload(index);
    }

    void release(size_t index) const override {
        inner_->release(index);
        const std::lock_guard lock(mutex_);
        if (fetched_.at(index)) {
            fetched_[index] = false;
            const Place at = place(index);
            files_[at.part].punch(at.offset, at.length);
        }
    }

    [[nodiscard]] std::optional<format::SourceHash> source() const override {
        uint64_t size = 0;
        for (const Object& object : objects_) {
            size += object.size;
        }
        if (objects_.size() == 1 && !objects_.front().sha256.empty()) {
            return format::SourceHash{.sha256 = objects_.front().sha256, .size = size};
        }
        Sha256 hash;
        for (const Object& object : objects_) {
            const uint64_t part = store_->options().part_bytes;
            for (uint64_t at = 0; at < object.size; at += part) {
                hash.update(store_->get(object.key, at, std::min(part, object.size - at), object.etag));
            }
        }
        return format::SourceHash{.sha256 = hash.hex(), .size = size};
    }

  private:
    struct Place {
        size_t part;
        uint64_t offset;
        uint64_t length;
    };

    void open(const std::string& key, const fs::path& folder) {
        const Object first = describe(key);
        const std::string name = file_name(key);
        const auto head =
            store_->get(key, 0, std::min<uint64_t>(format::KnotHeader::kBytes, first.size), first.etag);
        if (format::looks_like_knot(head)) {
            const format::KnotHeader header = format::KnotHeader::parse(head, first.size);
            add(first, folder / name, head);
            const uint64_t from = std::min(header.toc_offset, header.meta_offset);
            const uint64_t to =
                std::max(header.toc_offset + header.toc_length, header.meta_offset + header.meta_length);
            fetch({.part = 0, .offset = from, .length = to - from});
            fetch_key_values(folder / name);
            auto knot = std::make_unique<format::KnotFile>(folder / name);
            knot_ = knot.get();
            inner_ = std::move(knot);
            return;
        }
        const std::vector<std::byte> bytes = gguf_header(*store_, first);
        add(first, folder / name, bytes);
        const format::KeyValues key_values(bytes);
        const uint64_t parts = std::max<uint64_t>(key_values.find_u32("split.count").value_or(1), 1);
        const std::vector<std::string> keys = part_keys(key);
        if (parts > 1 && keys.size() != parts) {
            throw Error(ErrorCode::bad_input,
                        fmt::format("{}: not the first part of {}", address_.string(), parts));
        }
        for (uint64_t part = 1; part < parts; ++part) {
            const Object object = describe(keys[part]);
            add(object, folder / file_name(keys[part]), gguf_header(*store_, object));
        }
        inner_ = std::make_unique<format::GgufFile>(folder / name);
    }

    Object describe(const std::string& key) {
        std::optional<Object> object = store_->head(key);
        if (!object) {
            throw Error(ErrorCode::missing, fmt::format("{}/{}: not there", store_->address(), key));
        }
        return *std::move(object);
    }

    void add(const Object& object, const fs::path& path, Bytes head) {
        objects_.push_back(object);
        files_.emplace_back(path, object.size).write(0, head);
    }

    /// A knot's key-values are one of its payloads, which opening it reads.
    void fetch_key_values(const fs::path& path) const {
        const MappedFile mapped(path);
        for (const format::KnotEntry& entry : format::parse_knot(mapped.bytes()).entries) {
            if (entry.info.name == format::kKeyValuesName) {
                fetch({.part = 0, .offset = entry.offset, .length = entry.info.nbytes});
            }
        }
    }

    [[nodiscard]] Place place(size_t index) const {
        if (knot_ != nullptr) {
            const std::string& name = inner_->tensors()[index].name;
            const auto entries = knot_->entries();
            const auto at = std::find_if(entries.begin(), entries.end(),
                                         [&](const auto& e) { return e.info.name == name; });
            return {.part = 0, .offset = at->offset, .length = at->info.nbytes};
        }
        const Bytes payload = inner_->payload(index);
        for (size_t part = 0; part < inner_->mappings().size(); ++part) {
            const Bytes whole = inner_->mappings()[part].bytes();
            if (payload.data() >= whole.data() && payload.data() < whole.data() + whole.size()) {
                return {.part = part,
                        .offset = static_cast<uint64_t>(payload.data() - whole.data()),
                        .length = payload.size()};
            }
        }
        throw Error(ErrorCode::internal, "a payload outside its file");
    }

    void fetch(const Place& place) const {
        const Object& object = objects_.at(place.part);
        const uint64_t part = store_->options().part_bytes;
        for (uint64_t done = 0; done < place.length; done += part) {
            const uint64_t length = std::min(part, place.length - done);
            files_.at(place.part)
                .write(place.offset + done,
                       store_->get(object.key, place.offset + done, length, object.etag));
        }
    }

    fs::path address_;
    std::unique_ptr<ObjectStore> store_;
    std::vector<Object> objects_;
    std::vector<SparseFile> files_;
    std::unique_ptr<format::ModelFile> inner_;
    const format::KnotFile* knot_ = nullptr;  ///< inner_, where it is one
    mutable std::mutex mutex_;
    mutable std::vector<bool> fetched_;
};

StoreOptions& remote_options() {
    static StoreOptions options;
    return options;
}

}  // namespace

std::vector<std::byte> gguf_header(ObjectStore& store, const Object& object) {
    std::vector<std::byte> bytes;
    for (uint64_t want = kFirstRead;; want *= 4) {
        const uint64_t length = std::min({want, object.size, kLongestHeader});
        const auto more = store.get(object.key, bytes.size(), length - bytes.size(), object.etag);
        bytes.insert(bytes.end(), more.begin(), more.end());
        if (!format::looks_like_gguf(bytes)) {
            throw Error(ErrorCode::bad_input, "neither a GGUF nor a knot");
        }
        try {
            (void)format::scan_gguf(bytes);
            return bytes;
        } catch (const Error&) {
            if (length == object.size || length == kLongestHeader) {
                throw;
            }
        }
    }
}

std::unique_ptr<format::ModelFile> open_remote_model(const std::string& address,
                                                     const StoreOptions& options) {
    return within(address.substr(0, address.find('?')),
                  [&] { return std::make_unique<RemoteModel>(address, options); });
}

void allow_remote_models(const StoreOptions& options) {
    remote_options() = options;
    format::ModelFile::set_remote_opener(
        [](const std::string& address) -> std::unique_ptr<format::ModelFile> {
            return is_address(address) ? open_remote_model(address, remote_options()) : nullptr;
        });
}

LocalCopy::LocalCopy(const fs::path& path, Monitor& monitor) : path_(path) {
    const std::string address = path.string();
    if (!is_address(address)) {
        return;
    }
    const ObjectAddress split = split_address(address);
    if (address.starts_with("file://")) {
        path_ = fs::path(split.store) / split.key;
        return;
    }
    folder_ = new_folder();
    try {
        path_ = download_model(*open_store(split.store, remote_options()), split.key, folder_, monitor);
    } catch (...) {
        std::error_code ignored;
        fs::remove_all(folder_, ignored);
        throw;
    }
}

LocalCopy::~LocalCopy() {
    if (!folder_.empty()) {
        std::error_code ignored;
        fs::remove_all(folder_, ignored);
    }
}

}  // namespace kaiju::zoo
