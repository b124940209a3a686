// Little-endian readers and writers, and arithmetic on sizes that come from files.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/error.h"

namespace kaiju {

static_assert(std::endian::native == std::endian::little,
              "the formats are little-endian and so are the readers");

using Bytes = std::span<const std::byte>;

/// a + b and a * b for sizes read from files. Throws bad_input naming `what` where 64 bits overflow.
[[nodiscard]] uint64_t checked_add(uint64_t a, uint64_t b, std::string_view what);
[[nodiscard]] uint64_t checked_mul(uint64_t a, uint64_t b, std::string_view what);

/// True iff [offset, offset + length) lies inside [0, total), without overflow.
[[nodiscard]] constexpr bool fits(uint64_t offset, uint64_t length, uint64_t total) {
    return offset <= total && length <= total - offset;
}

/// Unaligned load of a trivially copyable value. The caller has checked the bounds.
template <typename T>
[[nodiscard]] T load(const void* at) {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    std::memcpy(&value, at, sizeof value);
    return value;
}

template <typename T>
void store(void* at, const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::memcpy(at, &value, sizeof value);
}

/// Reads a byte string front to back; running past the end throws bad_input with the offset and what was
/// being read.
class ByteReader {
  public:
    explicit ByteReader(Bytes bytes) : bytes_(bytes) {}

    template <typename T>
    [[nodiscard]] T read(std::string_view what) {
        return load<T>(take(sizeof(T), what).data());
    }
    [[nodiscard]] Bytes take(uint64_t count, std::string_view what);
    [[nodiscard]] std::string text(uint64_t count, std::string_view what);
    [[nodiscard]] uint64_t offset() const { return offset_; }
    [[nodiscard]] uint64_t remaining() const { return bytes_.size() - offset_; }

  private:
    Bytes bytes_;
    uint64_t offset_ = 0;
};

/// Appends little-endian values to a growing byte string.
class ByteWriter {
  public:
    template <typename T>
    void write(const T& value) {
        static_assert(std::is_trivially_copyable_v<T>);
        const auto* from = reinterpret_cast<const std::byte*>(&value);
        bytes_.insert(bytes_.end(), from, from + sizeof value);
    }
    void append(Bytes bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
    void append(std::string_view text) { append(std::as_bytes(std::span(text))); }
    [[nodiscard]] const std::vector<std::byte>& bytes() const { return bytes_; }
    [[nodiscard]] std::vector<std::byte> release() { return std::move(bytes_); }

  private:
    std::vector<std::byte> bytes_;
};

[[nodiscard]] inline std::string_view as_text(Bytes bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace kaiju
