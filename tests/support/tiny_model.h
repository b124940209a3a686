// Small random models, written as real GGUF files that stock llama.cpp loads: what tests run on instead of
// downloads.
#pragma once

#include <ggml.h>

#include <cstdint>
#include <filesystem>
#include <string>

namespace kaiju::test {

/// The shape of a tiny model. The defaults divide into blocks of 24 columns, as KAIJU1 wants.
struct TinyModelOptions {
    uint64_t seed = 1;
    uint32_t width = 96;     ///< residual stream; a multiple of heads
    uint32_t ffn = 192;      ///< inner width of the feed-forward network
    uint32_t layers = 2;     ///< transformer blocks
    uint32_t heads = 4;      ///< query heads; width / heads must be even
    uint32_t kv_heads = 2;   ///< key and value heads; divides heads
    uint32_t context = 512;  ///< context length the model claims to be trained with
    /// Type of the matrices (norms and biases stay F32). A matrix whose rows do not divide into the blocks of
    /// a quantised type is stored as F16. Types that need an importance matrix are not offered.
    ggml_type type = GGML_TYPE_F32;
    bool tied = false;         ///< no output.weight: the head is the embedding
    bool copied_head = false;  ///< output.weight is the embedding again, rounded to F16
    bool biases = false;       ///< biases on q, k, v (set it for architecture "qwen2", which requires them)
    /// general.architecture and the prefix of the hyper-parameter keys. Any text is written; "llama",
    /// "qwen2", "gemma", "gemma2" and "gemma3" run, the last three with the norms that they want, tied.
    std::string architecture = "llama";
    uint32_t window = 0;  ///< positions that local layers see (attention.sliding_window); 0: not written
    bool rope_factors = false;    ///< divisors of the rotation's frequencies, as Llama 3 has them
    std::string extra_tensor{};   ///< name of a vector that no architecture knows, left out if empty
    std::string name = "tiny";    ///< general.name
    std::string chat_template{};  ///< tokenizer.chat_template, left out if empty
    uint32_t parts = 1;           ///< more than 1: a split GGUF, STEM-00001-of-0000N.gguf beside the path
};

/// Number of tokens in the vocabulary: <unk>, <s>, </s>, 256 bytes, then single characters and a few short
/// words.
[[nodiscard]] uint32_t tiny_vocabulary_size();

/// Writes the model. Equal options give equal files. Replaces what is there.
/// @return the file to open: `path`, or the first part of a split model.
std::filesystem::path write_tiny_model(const std::filesystem::path& path,
                                       const TinyModelOptions& options = {});

/// Deterministic English-like text of about `bytes` bytes, one sentence a line, for perplexity and importance
/// runs.
[[nodiscard]] std::string tiny_text(size_t bytes, uint64_t seed = 1);

}  // namespace kaiju::test
