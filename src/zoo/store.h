// Object stores: one interface over a folder, an S3 bucket and a web server (docs/object-stores.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/monitor.h"

namespace kaiju::zoo {

/// What a store tells of an object without its bytes.
struct Object {
    std::string key;
    uint64_t size = 0;
    std::string etag;    ///< changes whenever the object does; opaque
    std::string sha256;  ///< of the bytes, hex; empty where the store does not know it
};

/// What must hold for a write to happen.
enum class Condition {
    none,    ///< replaces what is there
    absent,  ///< only where nothing is there; otherwise the write answers false
};

/// How a store is reached. Credentials are not among this: they come from the environment (credentials.h).
struct StoreOptions {
    std::string endpoint{};                    ///< of S3; empty: the environment's, or Amazon's
    std::string region{};                      ///< empty: the environment's, or us-east-1
    std::optional<bool> virtual_host{};        ///< bucket in the host name; nothing: as the endpoint suggests
    double patience = 120;                     ///< seconds that a failing request is tried again
    int parallel = 4;                          ///< parts under way at once
    uint64_t part_bytes = uint64_t{16} << 20;  ///< of uploads and downloads; S3 wants 5 MiB or more
    uint64_t whole_bytes = uint64_t{16} << 20;  ///< files up to this size go up in one request
};

/// A flat set of keys with bytes. Every call is tried again with growing pauses for as long as
/// StoreOptions::patience says, and may be made from several threads. Absence is an answer; whatever else
/// goes wrong throws io (a store that cannot be asked is never "absent"), bad_input for keys that cannot be,
/// usage where the store cannot do it at all.
class ObjectStore {
  public:
    virtual ~ObjectStore() = default;

    /// The address it was opened with, without credentials.
    [[nodiscard]] virtual const std::string& address() const = 0;
    [[nodiscard]] virtual std::optional<Object> head(const std::string& key) = 0;
    /// Exactly bytes [offset, offset + length). With an etag the object must still be that one (otherwise
    /// bad_input). Throws missing where there is no such object.
    [[nodiscard]] virtual std::vector<std::byte> get(const std::string& key, uint64_t offset, uint64_t length,
                                                     const std::string& etag) = 0;
    /// Every object whose key begins with `prefix`, sorted by key.
    [[nodiscard]] virtual std::vector<Object> list(const std::string& prefix) = 0;
    /// A small object in one request. False where `condition` did not hold.
    virtual bool put(const std::string& key, Bytes bytes, Condition condition) = 0;
    /// A file, in parts where it is large; the object appears whole or not at all.
    virtual bool put_file(const std::string& key, const std::filesystem::path& file, Condition condition,
                          Monitor& monitor) = 0;
    /// Fine where nothing is there.
    virtual void remove(const std::string& key) = 0;
    /// False for stores that can only be read.
    [[nodiscard]] virtual bool writable() const { return true; }
    [[nodiscard]] virtual const StoreOptions& options() const = 0;
};

/// Opens "file://FOLDER", a plain folder, "s3://BUCKET[/PREFIX]" or "http(s)://HOST[/PATH]". Nothing is asked
/// of the store yet. Throws usage for addresses of another form.
[[nodiscard]] std::unique_ptr<ObjectStore> open_store(const std::string& address,
                                                      const StoreOptions& options);

/// The address of one object, taken apart.
struct ObjectAddress {
    std::string store;
    std::string key;
};

/// "s3://bucket/a/b" is store "s3://bucket", key "a/b"; a path is its folder and its name.
[[nodiscard]] ObjectAddress split_address(const std::string& address);

/// True for "s3://", "http://", "https://" and "file://".
[[nodiscard]] bool is_address(std::string_view text);

/// Throws bad_input unless `key` can be a key everywhere: 1 to 1024 printable ASCII characters, no empty
/// segment and no "." or "..".
void check_key(std::string_view key);

/// A whole small object. Throws missing; bad_input above `limit` bytes.
[[nodiscard]] std::string get_text(ObjectStore& store, const std::string& key,
                                   uint64_t limit = uint64_t{64} << 20);

}  // namespace kaiju::zoo
