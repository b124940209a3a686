// The feeder: everything a model needs before it can be encoded, made from its source and stored.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/monitor.h"
#include "zoo/store.h"

namespace kaiju::zoo {

struct LadderOptions {
    std::string
        source;  ///< a GGUF of any type, or a Hugging Face folder of safetensors: a path or an address
    std::string id;
    std::string store;
    StoreOptions store_options{};
    std::filesystem::path work;         ///< a folder of its own; what is there is taken up again
    std::filesystem::path calibration;  ///< text for the importance matrix
    std::filesystem::path evaluation;   ///< text for the rungs' figures; empty: no rungs
    std::string prompt;                 ///< for the qspec
    std::vector<std::string> rungs{"IQ2_S", "IQ3_XXS", "IQ3_S"};
    std::map<std::string, std::string> keys{};  ///< instead of the usual ones
    uint32_t ctx = 512;
    std::optional<uint64_t> calibration_chunks{};
    std::optional<uint64_t> evaluation_chunks{};
    uint64_t sketch_tokens = 100'000;  ///< of the calibration text, for encoder v3; 0: no sketch
    double min_margin = 0.5;           ///< of the qspec, in logits
    int threads = 1;
};

/// Makes f16, base (the source as it is, packed as a knot), importance matrix, qspec, sketch and, one by one,
/// the rungs with their perplexity and divergence from the f16, and publishes each as soon as it is there.
/// What the store has is never made again. The answer lists what was made and what was there, and the rungs'
/// figures; it is published too, as models/iq-ladder/<id>/<id>.ladder.json. Throws missing, bad_input, io and
/// what the steps throw.
[[nodiscard]] nlohmann::json build_ladder(const LadderOptions& options, Monitor& monitor);

/// Converts a Hugging Face folder of safetensors to an f16 GGUF with llama.cpp's own converter. Throws
/// missing, saying what Python lacks.
void convert_safetensors(const std::filesystem::path& folder, const std::filesystem::path& out,
                         const std::filesystem::path& log);

}  // namespace kaiju::zoo
