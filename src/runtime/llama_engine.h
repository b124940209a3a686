// The reference engine: llama.cpp's own graphs and kernels on the CPU.
#pragma once

#include "runtime/engine.h"

namespace kaiju::runtime {

/// Loads a model into llama.cpp with the settings of its stock programs (weight repacking and flash attention
/// chosen by llama.cpp), so that its figures are theirs. A GGUF is mapped as it is. A knot is turned into a
/// GGUF in anonymous memory: KAIJU tensors decoded to options.weight_type, stock tensors byte for byte; so it
/// runs exactly as the file that `kaiju knot to-gguf` writes. Rejected for this: llama_model_init_from_user,
/// which creates every optional tensor of an architecture (an output head beside a tied one, norms that then
/// take part) and turns weight repacking off.
///
/// Throws missing for a knot without key-values, bad_input where llama.cpp refuses the model, with its
/// reason.
[[nodiscard]] std::unique_ptr<Engine> load_llama_engine(const std::filesystem::path& path,
                                                        const EngineOptions& options);

}  // namespace kaiju::runtime
