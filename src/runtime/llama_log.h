// llama.cpp's log, and its aborts, as the rest of the project wants them.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace kaiju::runtime {

/// Sends every line that llama.cpp and ggml log to `sink` (an empty function: nowhere, the default). Global,
/// since their log is. The sink may be called from any thread, one call at a time.
void set_llama_log(std::function<void(std::string_view line)> sink);

/// Starts llama.cpp, once; everything that calls into it does this first.
void initialise_llama();

/// While it lives, collects the error lines that llama.cpp logs, and turns its aborts (GGML_ASSERT on the
/// contents of a file) on this thread into exceptions. One per call into llama.cpp that may fail.
class LlamaGuard {
  public:
    LlamaGuard();
    ~LlamaGuard();
    LlamaGuard(const LlamaGuard&) = delete;
    LlamaGuard& operator=(const LlamaGuard&) = delete;

    /// The error lines so far, joined; a general sentence where llama.cpp said nothing.
    [[nodiscard]] std::string errors() const;
};

}  // namespace kaiju::runtime
