#include "zoo/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "base/file.h"

namespace kaiju::zoo {

namespace fs = std::filesystem;

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kTick{100};
constexpr std::chrono::seconds kGrace{20};
constexpr int kCannotStart = 127;
constexpr size_t kMostOutput = size_t{16} << 20;

std::vector<char*> arguments_of(const std::vector<std::string>& words) {
    std::vector<char*> pointers;
    pointers.reserve(words.size() + 1);
    for (const std::string& word : words) {
        pointers.push_back(const_cast<char*>(word.c_str()));
    }
    pointers.push_back(nullptr);
    return pointers;
}

int open_log(const fs::path& log) {
    const int fd =
        ::open(log.empty() ? "/dev/null" : log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0) {
        throw Error(ErrorCode::io,
                    fmt::format("{}: cannot be written: {}", log.string(), std::strerror(errno)));
    }
    return fd;
}

/// In the child, between fork and exec: only calls that are safe there.
[[noreturn]] void become(char* const* words, const char* folder, int out, int log, pid_t parent) {
    if (parent != 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (::getppid() != parent) {
            ::_exit(kCannotStart);
        }
    } else {
        ::setsid();
    }
    const int null = ::open("/dev/null", O_RDONLY);
    ::dup2(null, STDIN_FILENO);
    ::dup2(out, STDOUT_FILENO);
    ::dup2(log, STDERR_FILENO);
    if (folder != nullptr && ::chdir(folder) != 0) {
        ::_exit(kCannotStart);
    }
    ::execvp(words[0], words);
    ::_exit(kCannotStart);
}

class Pipe {
  public:
    Pipe() {
        if (::pipe2(ends_.data(), O_CLOEXEC) != 0) {
            throw Error(ErrorCode::io, fmt::format("cannot make a pipe: {}", std::strerror(errno)));
        }
    }
    ~Pipe() {
        close_writer();
        ::close(ends_[0]);
    }
    Pipe(const Pipe&) = delete;
    Pipe& operator=(const Pipe&) = delete;
    [[nodiscard]] int reader() const { return ends_[0]; }
    [[nodiscard]] int writer() const { return ends_[1]; }
    void close_writer() {
        if (ends_[1] >= 0) {
            ::close(ends_[1]);
            ends_[1] = -1;
        }
    }

  private:
    std::array<int, 2> ends_{-1, -1};
};

enum class Drained { nothing, some, end };

/// Takes what is there within a tick.
Drained drain(int fd, std::string& output) {
    pollfd waiting{.fd = fd, .events = POLLIN, .revents = 0};
    if (::poll(&waiting, 1, static_cast<int>(kTick.count())) <= 0) {
        return Drained::nothing;
    }
    std::array<char, 65536> piece{};
    const ssize_t got = ::read(fd, piece.data(), piece.size());
    if (got > 0 && output.size() < kMostOutput) {
        output.append(piece.data(), static_cast<size_t>(got));
    }
    return got > 0 ? Drained::some : Drained::end;
}

int code_of(int status) {
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string start_time(pid_t pid) {
    std::ifstream file(fmt::format("/proc/{}/stat", pid));
    std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    const size_t end = text.rfind(')');  // the name may hold anything
    if (end == std::string::npos) {
        return {};
    }
    std::istringstream fields(text.substr(end + 1));
    std::string field;
    constexpr int kStart = 20;  // field 22 of the whole line
    for (int i = 0; i < kStart && fields >> field; ++i) {
        if (i == 0 && field == "Z") {
            return {};  // dead, and only not yet buried
        }
    }
    return field;
}

}  // namespace

ProcessResult run_process(const std::vector<std::string>& words, const ProcessOptions& options) {
    std::vector<char*> arguments = arguments_of(words);
    const int log = open_log(options.log);
    Pipe pipe;
    const pid_t parent = ::getpid();
    const pid_t child = ::fork();
    if (child == 0) {
        become(arguments.data(), options.folder.empty() ? nullptr : options.folder.c_str(),
               options.capture ? pipe.writer() : log, log, parent);
    }
    ::close(log);
    pipe.close_writer();
    if (child < 0) {
        throw Error(ErrorCode::io,
                    fmt::format("{}: cannot be started: {}", words.front(), std::strerror(errno)));
    }
    ProcessResult result;
    const auto start = Clock::now();
    Clock::time_point kill_at = Clock::time_point::max();
    bool ended_output = !options.capture;
    for (int status = 0;;) {
        if (ended_output) {
            std::this_thread::sleep_for(kTick / 10);
        } else {
            ended_output = drain(pipe.reader(), result.output) == Drained::end;
        }
        if (::waitpid(child, &status, WNOHANG) == child) {
            // What it left in the pipe; a grandchild that holds the other end is not waited for.
            while (!ended_output && drain(pipe.reader(), result.output) == Drained::some) {
            }
            result.code = code_of(status);
            break;
        }
        const auto now = Clock::now();
        const bool late =
            options.limit_seconds > 0 && now - start > std::chrono::duration<double>(options.limit_seconds);
        if (kill_at == Clock::time_point::max() && (late || (options.keep_going && !options.keep_going()))) {
            result.timed_out = late;
            result.stopped = !late;
            ::kill(child, SIGTERM);
            kill_at = now + kGrace;
        } else if (now > kill_at) {
            ::kill(child, SIGKILL);
        }
    }
    if (result.code == kCannotStart) {
        throw Error(ErrorCode::missing,
                    fmt::format("{}: cannot be started (is it installed?)", words.front()));
    }
    return result;
}

std::string last_words(const fs::path& log, uint64_t begin) {
    constexpr size_t kMost = 400;
    std::error_code ignored;
    const std::string text = fs::exists(log, ignored) ? read_text(log) : std::string();
    std::istringstream lines(text.substr(std::min<uint64_t>(begin, text.size())));
    std::string last = "(no output)";
    bool own = false;
    for (std::string line; std::getline(lines, line);) {
        const bool message = line.starts_with("kaiju: ") || line.starts_with("failure: ");
        if (!line.empty() && (message || !own)) {
            last = line.substr(0, kMost);
            own = own || message;
        }
    }
    return last;
}

pid_t start_detached(const std::vector<std::string>& words, const fs::path& log_path) {
    std::vector<char*> arguments = arguments_of(words);
    const int log = open_log(log_path);
    const pid_t child = ::fork();
    if (child == 0) {
        become(arguments.data(), nullptr, log, log, 0);
    }
    ::close(log);
    if (child < 0) {
        throw Error(ErrorCode::io,
                    fmt::format("{}: cannot be started: {}", words.front(), std::strerror(errno)));
    }
    return child;
}

std::string process_handle(pid_t pid) {
    return fmt::format("{}@{}", pid, start_time(pid));
}

pid_t process_number(const std::string& handle) {
    pid_t pid = 0;
    std::from_chars(handle.data(), handle.data() + handle.size(), pid);
    return pid;
}

bool process_alive(const std::string& handle) {
    const pid_t pid = process_number(handle);
    ::waitpid(pid, nullptr, WNOHANG);  // buries it where it was our own
    const std::string start = pid > 0 ? start_time(pid) : std::string();
    return !start.empty() && handle == fmt::format("{}@{}", pid, start);
}

std::string own_program() {
    // An update replaces the file under running programs: the new one is at the old path.
    constexpr std::string_view kReplaced = " (deleted)";
    const std::string path = fs::read_symlink("/proc/self/exe").string();
    return path.ends_with(kReplaced) ? path.substr(0, path.size() - kReplaced.size()) : path;
}

std::vector<RunningProcess> processes_like_this() {
    const fs::path own = own_program();
    std::vector<RunningProcess> found;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
        const std::string number = entry.path().filename().string();
        pid_t pid = 0;
        const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), pid);
        if (error != std::errc() || end != number.data() + number.size()) {
            continue;
        }
        std::ifstream file(entry.path() / "cmdline");
        std::vector<std::string> words;
        for (std::string word; std::getline(file, word, '\0');) {
            words.push_back(word);
        }
        // By the file that runs, and by name: another copy or version works on this host, too.
        const fs::path program = fs::read_symlink(entry.path() / "exe", ignored);
        const auto is_ours = [&](const fs::path& path) {
            return path.filename() == "kaiju" || path.filename() == own.filename();
        };
        if (!words.empty() && (is_ours(program) || is_ours(words.front()))) {
            found.push_back({.pid = pid, .words = std::move(words)});
        }
    }
    return found;
}

}  // namespace kaiju::zoo
