// The stock GGML types by the names that GGUF tools print and the knot's table of contents stores ("F16",
// "Q4_K").
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace kaiju::format {

/// What a stock type implies about sizes: a row of `cols` weights is cols / block_weights blocks of
/// block_bytes each.
struct StockType {
    std::string name;   ///< upper-case GGML name
    uint32_t ggml = 0;  ///< enum ggml_type, as GGUF files store it
    uint64_t block_weights = 0;
    uint64_t block_bytes = 0;
};

/// The type of that name, or none. Names are exact: upper case, as in docs/knot.md.
[[nodiscard]] const StockType* find_stock_type(std::string_view name);

/// The type with that GGML number, or none where the linked ggml has no such type (or has removed it).
[[nodiscard]] const StockType* find_stock_type(uint32_t ggml);

/// Payload bytes of a tensor of a stock type. Throws bad_input where a row is not a whole number of blocks,
/// or where the size overflows. `shape` is outermost first.
[[nodiscard]] uint64_t stock_payload_bytes(const StockType& type, std::span<const uint64_t> shape);

/// 1..limit printable ASCII characters, no space: what containers accept as the name of a tensor, so that it
/// can be shown on a terminal, put into a message or matched as one word.
[[nodiscard]] bool is_plain_name(std::string_view name, size_t limit);

/// True where all bytes are well-formed UTF-8 (RFC 3629: no surrogates, no overlong forms).
[[nodiscard]] bool is_utf8(std::string_view text);

/// A name from a file as it may be shown: at most 80 characters, everything that is not plain replaced by
/// '?'.
[[nodiscard]] std::string printable(std::string_view text);

}  // namespace kaiju::format
