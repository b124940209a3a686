// Stock quantisation of a whole model through libllama: what a knot is compared with.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace kaiju::runtime {

/// Names that quantise_gguf takes: "IQ2_S", "IQ3_XXS", "IQ3_S", "Q4_K_M".
[[nodiscard]] std::vector<std::string> quantisation_names();

/// Quantises a GGUF to a new one with an importance matrix, as llama-quantize does. Throws usage for an
/// unknown type, output_exists, missing, bad_input with llama.cpp's reason.
void quantise_gguf(const std::filesystem::path& model, const std::filesystem::path& imatrix,
                   const std::string& type, const std::filesystem::path& out, int threads);

}  // namespace kaiju::runtime
