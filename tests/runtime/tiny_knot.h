// A tiny model with its matrices in KAIJU1.
#pragma once

#include <filesystem>

#include "codec/encode_model.h"
#include "codec/encode_plan.h"
#include "codec/scope.h"
#include "format/imatrix.h"
#include "format/model_file.h"
#include "support/test_files.h"
#include "support/tiny_model.h"

namespace kaiju::test {

/// Writes model.gguf, imatrix.gguf and model.knot into a folder (which has none of them) and returns the
/// knot.
inline std::filesystem::path write_tiny_knot(const TemporaryFolder& folder, const TinyModelOptions& shape) {
    const auto model = write_tiny_model(folder / "model.gguf", shape);
    const auto file = format::ModelFile::open(model);
    format::Imatrix imatrix;
    for (const format::TensorInfo& info : file->tensors()) {
        if (codec::is_linear_weight(info.name)) {
            imatrix.entries[info.name] = {.sum_of_squares = std::vector<float>(info.cols(), 1.0F),
                                          .count = 1};
        }
    }
    format::write_imatrix(folder / "imatrix.gguf", imatrix);
    codec::EncodeOptions options;
    options.model = model;
    options.imatrix = folder / "imatrix.gguf";
    options.out = folder / "model.knot";
    Monitor monitor;
    (void)codec::encode_model(codec::plan_encode(options), monitor);
    return options.out;
}

}  // namespace kaiju::test
