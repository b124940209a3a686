// A model whose embedding and head are one matrix, written twice: stored once.
#pragma once

#include "format/model_file.h"

namespace kaiju::codec {

/// Where a file has the two, as indices of its tensors.
struct TiedHead {
    size_t embedding = 0;
    size_t head = 0;
};

/// Finds both by name. Throws usage, naming the file, where one is missing (a model without a head is tied
/// already).
[[nodiscard]] TiedHead find_head(const format::ModelFile& file);

/// Throws usage, with what was measured, unless the two are the same matrix: of equal shape, and apart by no
/// more than two quantisations of one matrix are (5 % of its energy; matrices that were trained apart are
/// apart by 200 %). Looks at 256 rows, evenly chosen, so that a model behind a network is not read whole.
void require_tied(const format::ModelFile& file);

}  // namespace kaiju::codec
