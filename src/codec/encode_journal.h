// The journal beside an unfinished output: which entries are done, and with which settings.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "codec/encode_model.h"

namespace kaiju::codec {

/// One JSON object a line: first the settings, then an entry a line, in the order they were finished. A line
/// follows as soon as its payload is written, so that a kill loses only the tensor under way. Neither is
/// flushed to the disk before: a power failure may leave a line without its payload, which its checksum tells
/// the run that resumes, and flushing would make every tensor wait for the disk. A last line that was cut
/// short is ignored.
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
    /// Appends the line of an entry whose payload was written.
    void add(size_t index, const Finished& entry);
    void remove();

    [[nodiscard]] static std::filesystem::path path_of(const std::filesystem::path& out);
    /// True for a file that begins as journals do, or was cut short before its first line ended.
    [[nodiscard]] static bool is_one(const std::filesystem::path& path);

  private:
    void read(const nlohmann::json& settings);
    void append(const nlohmann::json& line) const;

    std::filesystem::path path_;
    std::map<size_t, Finished> finished_;
};

}  // namespace kaiju::codec
