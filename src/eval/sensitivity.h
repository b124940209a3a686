// Which tensors' errors a model feels, measured: all of the model exact but for one layer, or one role.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/monitor.h"
#include "codec/sensitivity.h"
#include "format/model_file.h"

namespace kaiju::eval {

struct SensitivityOptions {
    uint32_t ctx = 512;
    uint64_t chunks = 2;
    int threads = 0;  ///< 0: all processors of this process
    std::string text_name = "the text";
};

/// For every layer and every role of the KAIJU4 matrices of `quantised`: the mean divergence from `exact` of
/// `exact` with those matrices in place of its own, over the second halves of the text's first chunks. Runs
/// on the native engine, one model at a time; the exact model's logits are kept (chunks x ctx / 2 x
/// vocabulary x 4 bytes). Throws bad_input where the matrices do not all have one type, which is what makes
/// their costs comparable, or where there is none; usage for a text with fewer chunks.
[[nodiscard]] codec::Sensitivity measure_sensitivity(const format::ModelFile& exact,
                                                     const format::ModelFile& quantised,
                                                     std::string_view text, const SensitivityOptions& options,
                                                     Monitor& monitor);

}  // namespace kaiju::eval
