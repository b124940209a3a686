// How fast products and models are on this machine.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/monitor.h"
#include "runtime/engine.h"

namespace kaiju::runtime {

struct KernelBenchOptions {
    uint32_t rows = 4096;
    uint32_t cols = 4096;
    std::vector<uint32_t> batches = {1, 8, 512};  ///< tokens multiplied together
    std::vector<int> threads = {1};
    /// Wires of ours and stock types; and "read", which reads KAIJU1's payload and does nothing with it.
    std::vector<std::string> types = {"KAIJU1", "KAIJU4_2", "KAIJU4_3", "KAIJU4_4", "IQ3_XXS",
                                      "IQ3_S",  "Q3_K",     "Q4_K",     "F16",      "read"};
    double seconds = 0.5;  ///< how long each row is measured
    bool precise = false;  ///< wires of ours with f32 activations
};

/// One product of a rows x cols matrix with `batch` tokens, activations brought into the kernel's form
/// included.
struct KernelTiming {
    std::string type;
    std::string kernel;  ///< instruction set of our kernels; "ggml" for its own
    uint32_t batch = 0;
    int threads = 0;
    double best_us = 0;
    double median_us = 0;
    uint64_t bytes = 0;  ///< of the weights as they are stored
};

/// Times products of one shape side by side: all in graphs on the same pool of threads, types taking turns,
/// so that what else the machine does meets them alike. Before that, each type's answer is compared with its
/// decoded weights. Throws usage for shapes that a type does not divide into, internal for a wrong answer.
[[nodiscard]] std::vector<KernelTiming> bench_kernels(const KernelBenchOptions& options,
                                                      const Monitor& monitor);

struct ModelBenchOptions {
    uint32_t prompt = 128;    ///< tokens evaluated together; 0: not measured
    uint32_t generated = 64;  ///< tokens evaluated one by one, from an empty context; 0: not measured
    uint32_t repetitions = 5;
    int threads = 0;
};

/// In llama-bench's terms: "pp128" tokens of a prompt, "tg64" tokens generated.
struct ModelTiming {
    std::string test;
    double tokens_per_second = 0;  ///< mean of the repetitions
    double deviation = 0;          ///< their standard deviation
    double best = 0;               ///< the best of them: what other programs on the machine disturbed least
};

/// Evaluates tokens drawn at random. A first run, not counted, warms up and has its logits checked. Throws
/// bad_input where they are not numbers.
[[nodiscard]] std::vector<ModelTiming> bench_model(const Engine& engine, const ModelBenchOptions& options,
                                                   const Monitor& monitor);

}  // namespace kaiju::runtime
