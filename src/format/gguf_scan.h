// A bounded walk over the header of a GGUF file.
//
// ggml's own reader is what decides whether a file is a GGUF (gguf_file.cpp calls it), but it takes its
// numbers on trust in places, reports failures on standard error only, cuts strings at an embedded zero byte,
// and its copying function aborts the process on a key that begins with one. This walk comes first: it checks
// every count and length against the bytes at hand before anything is allocated, says in words what is wrong
// and where, and notes where each key-value lies, so that key-values are copied verbatim.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/bytes.h"

namespace kaiju::format {

/// Value types of GGUF key-values, numbered as in the file.
enum class GgufType : uint32_t {
    u8 = 0,
    i8 = 1,
    u16 = 2,
    i16 = 3,
    u32 = 4,
    i32 = 5,
    f32 = 6,
    boolean = 7,
    string = 8,
    array = 9,
    u64 = 10,
    i64 = 11,
    f64 = 12,
};

/// "u32", "string", ...
[[nodiscard]] std::string_view gguf_type_name(GgufType type);

/// Bytes of one value; 0 for strings and arrays.
[[nodiscard]] uint64_t gguf_value_bytes(GgufType type);

/// One key-value. The spans point into the scanned bytes.
struct GgufKeyValue {
    std::string_view key;
    GgufType type{};     ///< of the value, `array` for arrays
    GgufType element{};  ///< of the elements of an array; the same as `type` otherwise
    uint64_t count = 1;  ///< elements of an array; 1 otherwise
    Bytes value;  ///< scalar: its bytes; string: its text; array: its elements (strings with their lengths)
    Bytes raw;    ///< the whole record, key included, as in the file
};

/// One entry of the tensor table.
struct GgufTensor {
    std::string_view name;
    std::vector<uint64_t> shape;  ///< outermost first, the reverse of the file's order
    uint32_t type = 0;            ///< enum ggml_type
    uint64_t offset = 0;          ///< from the start of the data section
    uint64_t nbytes = 0;
};

struct GgufScan {
    uint32_t version = 0;
    uint64_t alignment = 32;
    std::vector<GgufKeyValue> key_values;
    std::vector<GgufTensor> tensors;
    uint64_t data_offset = 0;  ///< where the data section starts
    uint64_t length = 0;       ///< bytes that the file must have at least: the end of the last tensor

    [[nodiscard]] const GgufKeyValue* find(std::string_view key) const;
};

/// Walks the header; the data section need not be there. Throws bad_input.
[[nodiscard]] GgufScan scan_gguf(Bytes file);

}  // namespace kaiju::format
