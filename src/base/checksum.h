// Checksums: XXH3-64 inside files, SHA-256 to identify whole files.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/bytes.h"

namespace kaiju {

[[nodiscard]] uint64_t xxh3(Bytes bytes);

/// Sixteen lower-case hex digits, as the knot's table of contents writes a checksum.
[[nodiscard]] std::string hex16(uint64_t value);

/// Streaming SHA-256.
class Sha256 {
  public:
    Sha256();
    ~Sha256();
    Sha256(const Sha256&) = delete;
    Sha256& operator=(const Sha256&) = delete;
    void update(Bytes bytes);
    /// 64 lower-case hex digits. The object is spent afterwards.
    [[nodiscard]] std::string hex();

  private:
    struct Context;
    std::unique_ptr<Context> context_;
};

[[nodiscard]] std::string sha256(Bytes bytes);

}  // namespace kaiju
