// Covariance sketches and full covariances of a model: one pass over a text, nothing raw kept.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/monitor.h"
#include "eval/tap_collector.h"
#include "format/model_file.h"
#include "runtime/engine.h"

namespace kaiju::eval {

struct CaptureOptions {
    std::filesystem::path out{};  ///< the .sket, or with `full` the file of covariances
    std::string model_id{};
    std::string source{};  ///< what the text is called
    uint32_t ctx = 512;
    uint64_t max_tokens = 100'000;  ///< in whole chunks
    uint32_t stride = 2;            ///< keep every so-many-th position of a chunk
    uint32_t k = 32;                ///< eigenpairs of a tap (fewer where it is not that wide)
    bool full = false;
    bool head = false;                     ///< the input of the head too
    uint64_t memory = uint64_t{16} << 30;  ///< bytes that the moments may take, beside the model
    bool resume = false;
    double checkpoint_seconds = 120;
    int threads = 0;  ///< 0: all processors of this process
};

struct Captured {
    std::vector<TapPlan> taps{};
    uint64_t chunks = 0;
    uint64_t resumed_chunks = 0;  ///< of them, found in the checkpoint
    uint64_t tokens = 0;
    uint64_t samples = 0;  ///< per tap
    double read_seconds = 0;
    double eigen_seconds = 0;
};

/// Reads the text chunk by chunk and writes options.out. While it works, <out>.part marks the unfinished
/// capture and keeps others away, and <out>.part.state holds the moments, written every checkpoint_seconds
/// and when the monitor is cancelled; with `resume` the next call goes on from there and comes to the same
/// bytes. Throws output_exists; usage where an unfinished capture is there and `resume` is not set, or where
/// its settings were others; bad_input where model or text do not do; what plan_taps throws.
[[nodiscard]] Captured capture(const format::ModelFile& file, const runtime::Engine& model,
                               std::string_view text, const CaptureOptions& options, Monitor& monitor);

}  // namespace kaiju::eval
