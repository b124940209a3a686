// The inner loop of all sums of products: 32 columns times 32 columns.
#pragma once

#include <array>
#include <cstddef>

namespace kaiju::stats {

/// Columns of a panel: a multiple of every vector's length, and a tile of 32 x 32 f64 is 8 KiB.
inline constexpr size_t kPanel = 32;
/// Rows that are summed in f32 before the sum goes to f64.
inline constexpr size_t kChunk = 128;

using Tile = std::array<double, kPanel * kPanel>;

/// tile[i][j] += Σ_r a[r][i] b[r][j] over `rows` rows of two panels (row-major, kPanel values a row).
///
/// Products and sums of kChunk rows are f32, in the order of the rows; those are added up in f64. Against f64
/// throughout that leaves at most kChunk rounding errors of 2^-24 in each partial sum, in practice (they are
/// random, and average out over the chunks) about 1e-7 of sqrt(a_ii b_jj): no more than storing the result as
/// f32 costs. f64 products take twice as long. The bits depend on whether the processor fuses multiply and
/// add, as the activations that go in do.
void tile_product(const float* a, const float* b, size_t rows, Tile& tile);

}  // namespace kaiju::stats
