// Importance matrices: per matrix and input column the mean square of what the column was multiplied with.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "format/key_values.h"

namespace kaiju::format {

/// The importance of one matrix, in llama.cpp's terms: sums over tokens, and how many tokens there were.
struct ImatrixEntry {
    std::vector<float> sum_of_squares;  ///< one per input column
    float count = 0;  ///< tokens (in .dat files: calls, with sums scaled alike); 0: it never ran

    /// sum_of_squares / count in f32, as llama-quantize divides; zeros where count is 0.
    [[nodiscard]] std::vector<float> mean_squares() const;
};

/// An importance matrix file.
struct Imatrix {
    std::map<std::string, ImatrixEntry> entries;  ///< by tensor name ("blk.0.attn_q.weight")
    std::vector<std::string> datasets;            ///< what the calibration text was called
    uint32_t chunk_count = 0;
    uint32_t chunk_size = 0;  ///< tokens of a chunk; 0 in .dat files, which do not say
    KeyValues extra;          ///< whatever else a GGUF file carries; written back as it is

    [[nodiscard]] const ImatrixEntry* find(std::string_view tensor) const;
};

/// Reads llama.cpp's GGUF form, or its older .dat form, told apart by content. Throws bad_input naming the
/// tensor: sums that are negative or not finite, sums without counts, one entry per expert
/// (mixture-of-experts models are outside the encoder), a file cut short.
[[nodiscard]] Imatrix parse_imatrix(Bytes file);
[[nodiscard]] Imatrix read_imatrix(const std::filesystem::path& path);

/// Writes the GGUF form, which llama-quantize accepts. Entries come out sorted by name: equal contents, equal
/// files. Throws output_exists, io; bad_input where a name is too long for GGUF (55 characters).
void write_imatrix(const std::filesystem::path& path, const Imatrix& imatrix);

}  // namespace kaiju::format
