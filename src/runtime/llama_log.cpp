#include "runtime/llama_log.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ggml-cpu.h>
#include <llama.h>
#include <unistd.h>

#include <cstring>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

namespace kaiju::runtime {

namespace {

constexpr size_t kMaxErrors = 8;

/// Depth of LlamaGuards on this thread.
thread_local int guards = 0;

// What llama.cpp logs comes in pieces: a level, then continuations, a line ending with '\n'.
class Log {
  public:
    static Log& instance() {
        static Log log;
        return log;
    }

    void set(std::function<void(std::string_view)> sink) {
        const std::scoped_lock lock(mutex_);
        sink_ = std::move(sink);
    }

    void add(ggml_log_level level, std::string_view text) {
        const std::scoped_lock lock(mutex_);
        if (level != GGML_LOG_LEVEL_CONT) {
            level_ = level;
        }
        for (const char c : text) {
            if (c == '\n') {
                flush();
            } else {
                line_ += c;
            }
        }
    }

    void clear_errors() {
        const std::scoped_lock lock(mutex_);
        errors_.clear();
    }

    std::vector<std::string> errors() {
        const std::scoped_lock lock(mutex_);
        return errors_;
    }

  private:
    Log() {
        llama_log_set([](ggml_log_level level, const char* text, void*) { instance().add(level, text); },
                      nullptr);
        ggml_set_abort_callback(on_abort);
    }

    void flush() {
        if (line_.empty()) {
            return;
        }
        if (level_ == GGML_LOG_LEVEL_ERROR && errors_.size() < kMaxErrors) {
            errors_.push_back(line_);
        }
        if (sink_) {
            sink_(line_);
        }
        line_.clear();
    }

    // Throwing out of GGML_ABORT unwinds llama.cpp's frames like any of its own exceptions. That works on the
    // thread that called us; on a worker thread of ggml nobody would catch it, so there the process ends,
    // with the message.
    static void on_abort(const char* message) {
        if (guards > 0) {
            throw std::runtime_error(message);
        }
        [[maybe_unused]] const auto written = ::write(STDERR_FILENO, message, std::strlen(message));
    }

    std::mutex mutex_;
    std::function<void(std::string_view)> sink_;
    std::string line_;
    ggml_log_level level_ = GGML_LOG_LEVEL_INFO;
    std::vector<std::string> errors_;
};

/// "llama_model_load: error loading model: missing tensor" -> "error loading model: missing tensor"
std::string_view without_function(std::string_view line) {
    const size_t colon = line.find(": ");
    const bool is_name =
        colon != std::string_view::npos && line.substr(0, colon).find(' ') == std::string_view::npos;
    return is_name ? line.substr(colon + 2) : line;
}

}  // namespace

void set_llama_log(std::function<void(std::string_view)> sink) {
    Log::instance().set(std::move(sink));
}

void initialise_llama() {
    static std::once_flag flag;
    std::call_once(flag, [] {
        const LlamaGuard quiet;  // takes over the log before anything is logged
        llama_backend_init();
        ggml_cpu_init();
    });
}

LlamaGuard::LlamaGuard() {
    if (guards++ == 0) {
        Log::instance().clear_errors();
    }
}

LlamaGuard::~LlamaGuard() {
    --guards;
}

std::string LlamaGuard::errors() const {
    std::vector<std::string> lines;
    for (const std::string& line : Log::instance().errors()) {
        const std::string_view text = without_function(line);
        if (text != "failed to load model") {  // always follows a line that says why
            lines.emplace_back(text);
        }
    }
    return lines.empty() ? "llama.cpp gave no reason" : fmt::format("{}", fmt::join(lines, "; "));
}

}  // namespace kaiju::runtime
