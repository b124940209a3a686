// Two model files, tensor by tensor.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/monitor.h"
#include "format/model_file.h"

namespace kaiju::codec {

/// How one tensor differs between two files. Where only one file has it, the other's info is empty.
struct TensorDifference {
    std::string name;
    std::optional<format::TensorInfo> first;
    std::optional<format::TensorInfo> second;
    bool bytes_equal = false;       ///< types, shapes and payloads are the same
    std::optional<double> max_abs;  ///< largest |a - b| of the decoded weights, where both have one shape
    std::optional<double> relative_rms;  ///< sqrt(sum (a - b)^2 / sum a^2); 0 where all are equal

    [[nodiscard]] bool values_equal() const { return max_abs.has_value() && *max_abs == 0; }
};

/// All tensors of both files, in the order of the first, then those that only the second has. Tensors whose
/// bytes are equal are not decoded. Rows are compared in parallel; the sums do not depend on the number of
/// threads.
[[nodiscard]] std::vector<TensorDifference> compare_models(const format::ModelFile& first,
                                                           const format::ModelFile& second, int threads,
                                                           Monitor& monitor);

}  // namespace kaiju::codec
