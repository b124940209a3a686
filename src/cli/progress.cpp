#include "cli/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <string_view>

#include "base/error.h"

namespace kaiju::cli {

namespace {

constexpr std::string_view kYellow = "\033[33m";
constexpr std::string_view kRed = "\033[31m";
constexpr std::string_view kReset = "\033[0m";
constexpr std::string_view kEraseLine = "\r\033[K";
constexpr int kBarWidth = 24;

std::atomic<int> g_stop_signal{0};
static_assert(std::atomic<int>::is_always_lock_free, "written by a signal handler");

extern "C" void on_stop_signal(int number) {
    int none = 0;
    if (!g_stop_signal.compare_exchange_strong(none, number)) {
        std::signal(number, SIG_DFL);
        std::raise(number);
    }
}

bool is_set(const char* variable) {
    const char* value = std::getenv(variable);
    return value != nullptr && *value != '\0';
}

size_t terminal_columns(std::FILE* out) {
    winsize size{};
    return ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

double seconds_between(std::chrono::steady_clock::time_point from, std::chrono::steady_clock::time_point to) {
    return std::chrono::duration<double>(to - from).count();
}

}  // namespace

std::string format_quantity(double value) {
    static constexpr std::array<std::string_view, 6> kPrefixes{"", "k", "M", "G", "T", "P"};
    size_t prefix = 0;
    while (value >= 999.5 && prefix + 1 < kPrefixes.size()) {
        value /= 1000;
        ++prefix;
    }
    const bool whole = prefix == 0 && value == std::floor(value);
    const int decimals = whole || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
    std::string text = fmt::format("{:.{}f}", value, decimals);
    return prefix == 0 ? text : fmt::format("{} {}", text, kPrefixes[prefix]);
}

std::string format_duration(double seconds) {
    if (!(seconds >= 0) || seconds > 1e7) {
        return "?";
    }
    if (seconds < 9.95) {
        return fmt::format("{:.1f} s", seconds);
    }
    const auto whole = static_cast<int64_t>(std::llround(seconds));
    if (whole < 60) {
        return fmt::format("{} s", whole);
    }
    if (whole < 3600) {
        return fmt::format("{}:{:02}", whole / 60, whole % 60);
    }
    return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string format_bar(double share, int width) {
    const auto full = static_cast<size_t>(std::lround(std::clamp(share, 0.0, 1.0) * width));
    return fmt::format("[{}{}]", std::string(full, '#'), std::string(static_cast<size_t>(width) - full, '-'));
}

namespace {

/// Files are mapped: one that another program cuts short, or whose disk fails, is found out by a signal at an
/// arbitrary place. Nothing can be saved there; what is finished is safe, and the reason is told.
void on_bus_error(int /*signal*/) {
    constexpr std::string_view kMessage =
        "kaiju: a file became shorter while it was read, or its disk failed\n";
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, kMessage.data(), kMessage.size());
    ::_exit(static_cast<int>(ErrorCode::io));
}

}  // namespace

void install_signal_handlers() {
    struct sigaction action {};
    action.sa_handler = on_stop_signal;
    action.sa_flags = SA_RESTART;  // work under way goes on to its next safe place
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, nullptr);
    sigaction(SIGTERM, &action, nullptr);
    std::signal(SIGPIPE, SIG_IGN);
    std::signal(SIGXFSZ, SIG_IGN);  // a limit on file sizes is an error of the write
    std::signal(SIGBUS, on_bus_error);
}

int stop_signal() {
    return g_stop_signal.load();
}

Progress::Progress(std::FILE* out, bool terminal, bool colour)
    : out_(out), terminal_(terminal), colour_(colour), start_(Clock::now()) {}

Progress Progress::for_standard_error() {
    const char* term = std::getenv("TERM");
    const bool terminal = isatty(STDERR_FILENO) != 0 && term != nullptr && std::string_view(term) != "dumb";
    return {stderr, terminal, terminal && !is_set("NO_COLOR")};
}

void Progress::set_verbosity(Verbosity verbosity) {
    const std::scoped_lock lock(mutex_);
    verbosity_ = verbosity;
}

Verbosity Progress::verbosity() const {
    const std::scoped_lock lock(mutex_);
    return verbosity_;
}

std::string Progress::painted(std::string_view text, std::string_view colour) const {
    return colour_ ? fmt::format("{}{}{}", colour, text, kReset) : std::string(text);
}

/// What cannot be said is lost: a full disk or a reader that went away must not stop the work, and there is
/// nobody left to tell. (fmt::print would throw.)
void Progress::put(std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), out_);
}

void Progress::erase() {
    if (drawn_) {
        put(kEraseLine);
        drawn_ = false;
    }
}

void Progress::line(std::string_view text) {
    erase();
    if (verbosity_ == Verbosity::verbose) {
        put(fmt::format("[{:8.2f}] {}\n", seconds_between(start_, Clock::now()), text));
    } else {
        put(fmt::format("{}\n", text));
    }
    std::fflush(out_);
}

void Progress::info(std::string_view message) {
    const std::scoped_lock lock(mutex_);
    if (verbosity_ != Verbosity::quiet) {
        line(message);
    }
}

void Progress::warn(std::string_view message) {
    const std::scoped_lock lock(mutex_);
    line(fmt::format("{} {}", painted("kaiju: warning:", kYellow), message));
}

void Progress::error(std::string_view text) {
    const std::scoped_lock lock(mutex_);
    erase();
    put(fmt::format("{} {}\n", painted("kaiju:", kRed), text));
    std::fflush(out_);
}

void Progress::begin(std::string_view phase, uint64_t total, std::string_view unit) {
    const std::scoped_lock lock(mutex_);
    phase_ = phase;
    unit_ = unit;
    total_ = total;
    done_ = 0;
    phase_start_ = Clock::now();
    active_ = true;
    const auto first =
        phase_start_ + (terminal_ ? Clock::duration::zero() : Clock::duration(std::chrono::seconds(5)));
    next_draw_ = first.time_since_epoch().count();
}

void Progress::advance(uint64_t units) {
    done_.fetch_add(units, std::memory_order_relaxed);
    const auto now = Clock::now();
    if (now.time_since_epoch().count() < next_draw_.load(std::memory_order_relaxed)) {
        return;
    }
    const std::scoped_lock lock(mutex_);
    if (now.time_since_epoch().count() < next_draw_.load(std::memory_order_relaxed)) {
        return;  // another thread has just drawn
    }
    const Clock::duration pause = terminal_ ? Clock::duration(std::chrono::milliseconds(100))
                                            : Clock::duration(std::chrono::seconds(5));
    next_draw_ = (now + pause).time_since_epoch().count();
    if (active_ && verbosity_ != Verbosity::quiet) {
        draw(now);
    }
}

void Progress::draw(Clock::time_point now) {
    const auto done = static_cast<double>(std::min(done_.load(), total_));
    const double share = total_ > 0 ? done / static_cast<double>(total_) : 0;
    const double elapsed = seconds_between(phase_start_, now);
    const double rate = elapsed > 0 ? done / elapsed : 0;
    const std::string left =
        rate > 0 ? format_duration((static_cast<double>(total_) - done) / rate) + " left" : std::string();
    const std::string numbers =
        fmt::format("{:3.0f} %  {} {}/s  {}", 100 * share, format_quantity(rate), unit_, left);
    if (!terminal_) {
        line(fmt::format("{}: {}", phase_, numbers));
        return;
    }
    std::string text = fmt::format("{} {} {}", phase_, format_bar(share, kBarWidth), numbers);
    text.resize(std::min(text.size(), terminal_columns(out_) - 1));
    put(fmt::format("{}{}", kEraseLine, text));
    std::fflush(out_);
    drawn_ = true;
}

void Progress::end() {
    const std::scoped_lock lock(mutex_);
    if (!active_) {
        return;
    }
    active_ = false;
    erase();
    std::fflush(out_);
    if (verbosity_ == Verbosity::verbose) {
        const double elapsed = seconds_between(phase_start_, Clock::now());
        rusage usage{};
        getrusage(RUSAGE_SELF, &usage);
        line(fmt::format("{}: {} {} in {}, peak memory {}B", phase_,
                         format_quantity(static_cast<double>(done_)), unit_, format_duration(elapsed),
                         format_quantity(static_cast<double>(usage.ru_maxrss) * 1024)));
    }
}

bool Progress::cancelled() const {
    return stop_signal() != 0;
}

}  // namespace kaiju::cli
