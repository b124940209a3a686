#include "cli/line_reader.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace kaiju::cli {

namespace {

constexpr size_t kPiece = 65536;
constexpr size_t kLongestLine = size_t{1} << 20;
constexpr int kGlance = 200;  // ms: a signal between a look at the monitor and the wait is seen after this

}  // namespace

LineReader::LineReader(const Monitor& monitor)
    : monitor_(monitor), name_("standard input"), fd_(STDIN_FILENO) {}

// Without O_NONBLOCK, opening a FIFO waits for a writer, and no signal ends that.
LineReader::LineReader(const std::filesystem::path& path, const Monitor& monitor)
    : monitor_(monitor), name_(path.string()), fd_(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {
    if (fd_ < 0) {
        throw Error(errno == ENOENT ? ErrorCode::missing : ErrorCode::io,
                    fmt::format("{}: cannot open: {}", name_, std::strerror(errno)));
    }
    struct stat status {};
    if (::fstat(fd_, &status) == 0 && S_ISDIR(status.st_mode)) {
        ::close(fd_);
        throw Error(ErrorCode::bad_input, fmt::format("{}: is a folder", name_));
    }
}

LineReader::~LineReader() {
    if (fd_ != STDIN_FILENO) {
        ::close(fd_);
    }
}

void LineReader::wait() const {
    pollfd input = {.fd = fd_, .events = POLLIN, .revents = 0};
    do {
        monitor_.check_cancelled();
    } while (::poll(&input, 1, kGlance) <= 0);
}

bool LineReader::ready() const {
    return text_.find('\n', begin_) != std::string::npos || (ended_ && begin_ < text_.size());
}

std::optional<std::string> LineReader::next() {
    while (!ended_ && !ready()) {
        if (text_.size() - begin_ > kLongestLine) {
            throw Error(ErrorCode::bad_input, fmt::format("{}: a line is longer than a megabyte", name_));
        }
        wait();
        text_.erase(0, std::exchange(begin_, 0));
        const size_t old = text_.size();
        text_.resize(old + kPiece);
        const ssize_t count = ::read(fd_, text_.data() + old, kPiece);
        text_.resize(old + static_cast<size_t>(std::max<ssize_t>(count, 0)));
        if (count < 0 && errno != EINTR && errno != EAGAIN) {
            throw Error(ErrorCode::io, fmt::format("{}: {}", name_, std::strerror(errno)));
        }
        ended_ = count == 0;
    }
    if (begin_ == text_.size()) {
        return std::nullopt;
    }
    const size_t end = std::min(text_.find('\n', begin_), text_.size());
    std::string line = text_.substr(begin_, end - begin_);
    begin_ = std::min(end + 1, text_.size());
    return line;
}

}  // namespace kaiju::cli
