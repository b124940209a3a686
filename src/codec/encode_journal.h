// The journal beside an unfinished output: which entries are done, and with which settings.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "codec/encode_model.h"

namespace kaiju::codec {

/// One JSON object a line: first the settings, then an entry a line, in the order they were finished. A line
/// is written after the payload it speaks of has reached the disk, so that a journal never promises too much;
/// a last line that was cut short is ignored.
class EncodeJournal {
  public:
    struct Finished {
        uint64_t xxh3 = 0;
        TensorReport report;  ///< meaningful for encoded tensors
    };

    /// Opens the journal of `out`, or begins it. Settings of an earlier run that differ from `settings` are
    /// an error (usage) that names them.
    EncodeJournal(const std::filesystem::path& out, const nlohmann::json& settings);

    [[nodiscard]] const std::map<size_t, Finished>& finished() const { return finished_; }
    /// The entry has to be made again.
    void forget(size_t index) { finished_.erase(index); }
    /// Notes an entry; it reaches the file with the next flush.
    void add(size_t index, const Finished& entry);
    /// Appends the noted lines. Call it after the payloads were flushed.
    void flush();
    void remove();

    [[nodiscard]] static std::filesystem::path path_of(const std::filesystem::path& out);

  private:
    void read(const nlohmann::json& settings);

    std::filesystem::path path_;
    std::map<size_t, Finished> finished_;
    std::string pending_;
};

}  // namespace kaiju::codec
