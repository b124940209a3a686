// What an unfinished capture leaves on disk.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "eval/tap_collector.h"

namespace kaiju::eval {

/// The files beside the output `out`: <out>.part, empty, locked while a capture runs; <out>.part.state, the
/// settings, the number of chunks read and the moments, replaced as a whole by one rename.
class CaptureState {
  public:
    /// Throws output_exists, busy; usage where an unfinished capture is there and `resume` is not set.
    CaptureState(const std::filesystem::path& out, bool resume);

    /// Chunks that the state has, the collector filled with their moments; 0 where there is no state. Throws
    /// usage where it was begun with other settings, bad_input where it is damaged.
    [[nodiscard]] uint64_t load(const nlohmann::json& settings, TapCollector& collector) const;
    void save(const nlohmann::json& settings, uint64_t chunks, const TapCollector& collector) const;
    /// The output is there: removes both files.
    void remove();

  private:
    std::filesystem::path path_;
    OutputFile lock_;
};

}  // namespace kaiju::eval
