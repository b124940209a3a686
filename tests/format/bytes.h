// Files built byte by byte, so that tests may build wrong ones.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/checksum.h"

namespace kaiju::test {

inline Bytes bytes_of(std::string_view text) {
    return std::as_bytes(std::span(text));
}

/// Appends little-endian values and GGUF strings.
class Blob {
  public:
    template <typename T>
    Blob& put(T value) {
        data_.append(reinterpret_cast<const char*>(&value), sizeof value);
        return *this;
    }
    Blob& text(std::string_view text) {
        data_ += text;
        return *this;
    }
    /// u64 length, then the text.
    Blob& string(std::string_view text) { return put(uint64_t{text.size()}).text(text); }
    Blob& pad(size_t alignment) {
        data_.append((alignment - data_.size() % alignment) % alignment, '\0');
        return *this;
    }
    [[nodiscard]] const std::string& str() const { return data_; }

  private:
    std::string data_;
};

/// A knot with this text as table of contents and metadata: payloads as given behind the header, all checks
/// of the header in order. Offsets in `toc` are the caller's to get right, or wrong.
inline std::string make_knot(std::string_view payloads, std::string_view toc,
                             std::string_view metadata = "{}") {
    const uint64_t toc_offset = 64 + payloads.size();
    const std::string both = std::string(toc) + std::string(metadata);
    Blob blob;
    blob.text("KNOT").put(uint32_t{1});
    blob.put(toc_offset + toc.size()).put(uint64_t{metadata.size()});
    blob.put(toc_offset).put(uint64_t{toc.size()}).put(uint64_t{64}).put(toc_offset + both.size());
    blob.put(xxh3(bytes_of(both)));
    return blob.text(payloads).text(both).str();
}

/// Runs `body`, which must throw a kaiju::Error of this code whose message has all these parts.
template <typename Body>
void expect_error(ErrorCode code, const std::vector<std::string>& parts, Body&& body) {
    try {
        body();
        ADD_FAILURE() << "nothing was thrown; wanted: " << testing::PrintToString(parts);
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), code) << error.what();
        for (const std::string& part : parts) {
            EXPECT_THAT(error.what(), testing::HasSubstr(part));
        }
    }
}

}  // namespace kaiju::test
