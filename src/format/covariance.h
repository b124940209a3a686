// Full covariances of a model's activations (docs/covariance.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "format/calibration.h"

namespace kaiju::format {

/// One entry of the table: the matrix E[x xᵀ] (uncentred) of one tap.
struct CovarianceEntry {
    std::string tap{};  ///< "blk.0.attn_in" (format/taps.h)
    uint32_t dim = 0;
    uint64_t samples = 0;  ///< activations seen, ≥ 1
    uint64_t xxh3 = 0;     ///< of the payload
    uint64_t offset = 0;   ///< of the payload, from the start of the file

    /// Values of the packed lower triangle.
    [[nodiscard]] uint64_t packed() const { return uint64_t{dim} * (uint64_t{dim} + 1) / 2; }
};

struct CovarianceTable {
    std::string metadata;  ///< a JSON object, checked
    std::vector<CovarianceEntry> entries;
};

/// Parses and checks header and table of a whole file; payloads are not read. Throws bad_input.
[[nodiscard]] CovarianceTable parse_covariances(Bytes file);

/// A mapped file of covariances. Opening checks its structure; a matrix is checked when it is read.
class CovarianceFile {
  public:
    /// Throws missing, or bad_input naming file and entry.
    explicit CovarianceFile(const std::filesystem::path& path);

    [[nodiscard]] const std::filesystem::path& path() const { return file_.path(); }
    [[nodiscard]] std::span<const CovarianceEntry> entries() const { return table_.entries; }
    /// The entry of a tap, or nullptr.
    [[nodiscard]] const CovarianceEntry* find(std::string_view tap) const;
    [[nodiscard]] const std::string& metadata() const { return table_.metadata; }
    /// The model's id, empty where the metadata has none.
    [[nodiscard]] std::string model_id() const;
    /// The sketch of the calibration text, as `kaiju ppl` compares it with a text that it measures on.
    [[nodiscard]] std::optional<Calibration> calibration() const;

    /// Fills the dim x dim matrix, both triangles. Throws bad_input naming file and tap: a wrong checksum,
    /// values that are not finite, a negative diagonal, a pair that no covariance can have
    /// (c_ij² > c_ii c_jj). `dense` has dim² values. Thread-safe.
    void fill(const CovarianceEntry& entry, std::span<double> dense) const;
    void fill(const CovarianceEntry& entry, std::span<float> dense) const;
    /// The diagonal alone, E[x_i²]; its values are checked, the checksum is not.
    [[nodiscard]] std::vector<float> diagonal(const CovarianceEntry& entry) const;
    /// Lets the pages of a matrix go (see MappedFile::release).
    void release(const CovarianceEntry& entry) const;

  private:
    template <typename T>
    void fill_as(const CovarianceEntry& entry, std::span<T> dense) const;
    [[nodiscard]] Bytes payload(const CovarianceEntry& entry) const;

    MappedFile file_;
    CovarianceTable table_;
};

/// Writes such a file. Sizes are fixed by the table, so payloads may come in any order.
class CovarianceWriter {
  public:
    /// `entries`: taps, dims and samples; checksums and offsets are made here. `metadata`: a JSON object as
    /// text. Throws output_exists; bad_input for what a reader would refuse; io where the disk has no room.
    CovarianceWriter(const std::filesystem::path& path, std::string metadata,
                     std::vector<CovarianceEntry> entries);

    /// The lower triangle of entry `index`, row by row: c_00, c_10, c_11, c_20, ...
    void write(size_t index, std::span<const float> packed);
    /// Throws internal where an entry was not written.
    void commit();

  private:
    OutputFile file_;
    std::string metadata_;
    std::vector<CovarianceEntry> entries_;
    std::vector<bool> written_;
};

}  // namespace kaiju::format
