// Bits per weight, as every table of the project states them (docs/evaluation.md).
#pragma once

#include <cstdint>
#include <optional>

#include "format/model_file.h"

namespace kaiju::eval {

struct Bits {
    /// 8 x payload bytes (headers, indices and scales included) / weights, over the encoded tensors: those of
    /// KAIJU types where the file has any, else the tensors that would be encoded (codec::is_linear_weight).
    /// Nothing where the file has neither.
    std::optional<double> linear;
    double file = 0;              ///< 8 x bytes of all files / weights of all tensors
    uint64_t linear_weights = 0;  ///< weights that `linear` counts
    uint64_t weights = 0;         ///< all weights
    uint64_t file_bytes = 0;      ///< all parts of a split file together
};

/// Throws what the file system does where a part of the model has vanished.
[[nodiscard]] Bits measure_bits(const format::ModelFile& model);

}  // namespace kaiju::eval
