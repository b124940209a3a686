// Lines of a stream, as they arrive.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/monitor.h"

namespace kaiju::cli {

/// Reads standard input, a file or a FIFO line by line. Waiting ends with Error(interrupted) once the monitor
/// was cancelled: a plain read would go on after a signal.
class LineReader {
  public:
    /// Standard input.
    explicit LineReader(const Monitor& monitor);
    /// Throws missing or io where the path cannot be opened, bad_input for a folder.
    LineReader(const std::filesystem::path& path, const Monitor& monitor);
    ~LineReader();
    LineReader(const LineReader&) = delete;
    LineReader& operator=(const LineReader&) = delete;

    /// The next line without its newline, waiting for it; nothing at the end of the stream. The last line
    /// need not be ended. Throws io, and bad_input for a line longer than a megabyte.
    [[nodiscard]] std::optional<std::string> next();
    /// True where next() answers at once from what has been read.
    [[nodiscard]] bool ready() const;

  private:
    void wait() const;

    const Monitor& monitor_;
    std::string name_;
    int fd_;
    std::string text_;
    size_t begin_ = 0;  ///< of what was not given out yet
    bool ended_ = false;
};

}  // namespace kaiju::cli
