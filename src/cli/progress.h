// What the user sees of a long operation, on standard error.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <string>
#include <string_view>

#include "base/monitor.h"

namespace kaiju::cli {

/// From -q and -v: quiet leaves only warnings, verbose adds times to lines and a closing line with the peak
/// memory.
enum class Verbosity { quiet, normal, verbose };

/// On a terminal one line that is drawn again at most ten times a second: phase, bar, share, rate, time left.
/// Elsewhere (logs, pipes, TERM=dumb) a plain line every five seconds. Thread-safe.
class Progress final : public Monitor {
  public:
    /// `terminal`: whether `out` understands carriage return and erase-line. `colour`: whether it may be
    /// coloured.
    Progress(std::FILE* out, bool terminal, bool colour);

    /// The one of this process: standard error, with NO_COLOR and TERM=dumb respected.
    static Progress for_standard_error();

    void set_verbosity(Verbosity verbosity);
    [[nodiscard]] Verbosity verbosity() const;

    void info(std::string_view message) override;
    void warn(std::string_view message) override;
    void begin(std::string_view phase, uint64_t total, std::string_view unit) override;
    void advance(uint64_t units) override;
    void end() override;
    /// True once SIGINT or SIGTERM has arrived (install_signal_handlers).
    [[nodiscard]] bool cancelled() const override;

    /// Prints "kaiju: <text>" as an error, after clearing the progress line.
    void error(std::string_view text);

  private:
    using Clock = std::chrono::steady_clock;

    void put(std::string_view text);
    void line(std::string_view text);
    void draw(Clock::time_point now);
    void erase();
    [[nodiscard]] std::string painted(std::string_view text, std::string_view colour) const;

    std::FILE* out_;
    bool terminal_;
    bool colour_;
    mutable std::mutex mutex_;
    Verbosity verbosity_ = Verbosity::normal;
    Clock::time_point start_;
    std::string phase_;
    std::string unit_;
    uint64_t total_ = 0;
    Clock::time_point phase_start_;
    bool active_ = false;
    bool drawn_ = false;
    std::atomic<uint64_t> done_{0};
    std::atomic<int64_t> next_draw_{0};  ///< Clock ticks; advance() looks at it before it takes the mutex
};

/// The first SIGINT or SIGTERM asks the running operation to stop at its next safe place (exit 130 follows);
/// the second kills the process. SIGPIPE is ignored, so that a reader that goes away is an error of a write.
void install_signal_handlers();

/// The signal that asked to stop, 0 if none.
[[nodiscard]] int stop_signal();

/// "950", "12.3 k", "1.23 G": three significant digits and a decimal prefix with a space before it.
[[nodiscard]] std::string format_quantity(double value);
/// "4.2 s", "3:07", "2:03:07".
[[nodiscard]] std::string format_duration(double seconds);
/// "[######--------]" for a share in 0..1, `width` characters between the brackets.
[[nodiscard]] std::string format_bar(double share, int width);

}  // namespace kaiju::cli
