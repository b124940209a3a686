// Child processes: started without a shell, stopped with their parent, watched with a time limit.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace kaiju::zoo {

struct ProcessResult {
    int code = 0;  ///< of the process; 128 + the signal that killed it
    bool timed_out = false;
    bool stopped = false;  ///< `keep_going` said no
    std::string output;    ///< standard output, where it was captured
};

struct ProcessOptions {
    std::filesystem::path folder{};      ///< to work in; empty: this one
    std::filesystem::path log{};         ///< standard output and error are appended to it
    bool capture = false;                ///< standard output is kept instead
    double limit_seconds = 0;            ///< 0: none; by the monotonic clock
    std::function<bool()> keep_going{};  ///< asked every 0.1 s; false ends the child
};

/// Runs a command to its end. Where this process dies the child is killed too, so that a job which is started
/// again never meets its former self. A limit, or keep_going, ends it with SIGTERM and, 20 s later, SIGKILL.
/// Throws missing where the program is not there.
[[nodiscard]] ProcessResult run_process(const std::vector<std::string>& words, const ProcessOptions& options);

/// What a command said last, for messages, cut to some hundred characters: of what a log has from `begin` on,
/// the last line of this program's own messages or of a gate's failures, or else the last that is not empty.
[[nodiscard]] std::string last_words(const std::filesystem::path& log, uint64_t begin = 0);

/// Starts a process that outlives this one, in a session of its own, its output appended to `log`.
[[nodiscard]] pid_t start_detached(const std::vector<std::string>& words, const std::filesystem::path& log);

/// "PID@START": names a process even after its number has been given to another.
[[nodiscard]] std::string process_handle(pid_t pid);
[[nodiscard]] bool process_alive(const std::string& handle);
/// The number in a handle, 0 where it is none.
[[nodiscard]] pid_t process_number(const std::string& handle);

/// The path of this program.
[[nodiscard]] std::string own_program();

/// Processes of this program on this host, by the file that runs or by name (kaiju, or this one's), by the
/// words of their command lines, with their numbers.
struct RunningProcess {
    pid_t pid = 0;
    std::vector<std::string> words;
};
[[nodiscard]] std::vector<RunningProcess> processes_like_this();

}  // namespace kaiju::zoo
