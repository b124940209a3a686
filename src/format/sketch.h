// Covariance sketches, .sket files (docs/sket.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace kaiju::format {

/// What a sketch knows of one tap: with the eigenvectors as the columns of U, E[x xᵀ] is about
/// diag(max(diag - diag(U Λ Uᵀ), ε)) + U Λ Uᵀ, ε = kSketchFloor times the mean of diag.
struct Sketch {
    std::string tap{};            ///< "blk.0.attn_in" (format/taps.h)
    uint64_t samples = 1;         ///< activations seen
    std::vector<float> diag{};    ///< dim values: E[x_i²], ≥ 0
    std::vector<float> eigval{};  ///< k values, descending, ≥ 0
    std::vector<float> eigvec{};  ///< k x dim, row j the unit eigenvector of eigval[j]

    [[nodiscard]] uint32_t dim() const { return static_cast<uint32_t>(diag.size()); }
    [[nodiscard]] uint32_t k() const { return static_cast<uint32_t>(eigval.size()); }
};

inline constexpr double kSketchFloor = 1e-6;

/// One entry of a file: everything but its numbers, and where they lie.
struct SketchEntry {
    std::string tap{};
    uint32_t dim = 0;
    uint32_t k = 0;
    uint64_t samples = 0;
    Bytes numbers;  ///< diag, eigval, eigvec as f32, at any alignment

    /// Copies the numbers out.
    [[nodiscard]] Sketch load() const;
};

struct SketchTable {
    std::string model_id;
    std::vector<SketchEntry> entries;  ///< pointing into the parsed bytes
};

/// Parses and checks a whole file, every number of it. Throws bad_input naming the entry: see
/// docs/sket.md, "What a reader refuses".
[[nodiscard]] SketchTable parse_sketches(Bytes file);

/// A mapped .sket file.
class SketchFile {
  public:
    /// Throws missing, or bad_input naming file and entry. Everything is checked here.
    explicit SketchFile(const std::filesystem::path& path);

    [[nodiscard]] const std::filesystem::path& path() const { return file_.path(); }
    [[nodiscard]] const std::string& model_id() const { return table_.model_id; }
    [[nodiscard]] std::span<const SketchEntry> entries() const { return table_.entries; }
    /// The entry of a tap, or nullptr.
    [[nodiscard]] const SketchEntry* find(std::string_view tap) const;

  private:
    MappedFile file_;
    SketchTable table_;
};

/// Writes a .sket, tap by tap; nothing has the final name before commit.
class SketchWriter {
  public:
    /// Throws output_exists; bad_input where the id is too long or not UTF-8.
    SketchWriter(const std::filesystem::path& path, std::string_view model_id, uint32_t entries);

    /// Throws bad_input where the reader would refuse the entry.
    void append(const Sketch& sketch);
    /// Throws internal where more or fewer entries than announced were written.
    void commit();

  private:
    OutputFile file_;
    uint32_t announced_;
    std::vector<std::string> taps_;
};

}  // namespace kaiju::format
