#include "base/bytes.h"

#include <fmt/format.h>

namespace kaiju {

uint64_t checked_add(uint64_t a, uint64_t b, std::string_view what) {
    uint64_t sum = 0;
    if (__builtin_add_overflow(a, b, &sum)) {
        throw Error(ErrorCode::bad_input, fmt::format("{} overflows 64 bits", what));
    }
    return sum;
}

uint64_t checked_mul(uint64_t a, uint64_t b, std::string_view what) {
    uint64_t product = 0;
    if (__builtin_mul_overflow(a, b, &product)) {
        throw Error(ErrorCode::bad_input, fmt::format("{} overflows 64 bits", what));
    }
    return product;
}

Bytes ByteReader::take(uint64_t count, std::string_view what) {
    if (count > remaining()) {
        throw Error(ErrorCode::bad_input,
                    fmt::format("truncated: {} needs {} bytes at offset {}, {} are left", what, count,
                                offset_, remaining()));
    }
    const Bytes taken = bytes_.subspan(offset_, count);
    offset_ += count;
    return taken;
}

std::string ByteReader::text(uint64_t count, std::string_view what) {
    return std::string(as_text(take(count, what)));
}

}  // namespace kaiju
