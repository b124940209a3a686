// How a tensor is cut into pieces of work.
#pragma once

#include <algorithm>
#include <cstdint>

namespace kaiju {

/// Rows of `cols` values each that hold about `values` values together: pieces of one size whatever the
/// shape. At least 1, also where a row is longer, or empty.
[[nodiscard]] constexpr uint64_t rows_of(uint64_t values, uint64_t cols) {
    return std::max<uint64_t>(values / std::max<uint64_t>(cols, 1), 1);
}

}  // namespace kaiju
