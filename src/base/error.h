// The one error type of the project.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace kaiju {

/// What went wrong, as a program sees it. The value is the exit code of the command line
/// (docs/exit-codes.md).
enum class ErrorCode : int {
    usage = 2,          ///< The caller asked for something that makes no sense
    bad_input = 3,      ///< A file or a value is corrupt, out of range or unsupported
    output_exists = 4,  ///< The output is already there; nothing is ever overwritten
    missing = 5,        ///< A prerequisite is not there (file, tensor, importance entry, program)
    busy = 6,           ///< Somebody else holds what is needed
    io = 7,             ///< The operating system refused: disk full, read error, permission
    internal = 70,      ///< A fault of this program
    interrupted = 130,  ///< Cancelled by the user; what was finished can be resumed
};

/// Carries a code and a message that names the place, outermost first: "model.gguf: tensor
/// blk.0.attn_q.weight: ...". The library never prints and never aborts on data: it throws this, and each
/// level that knows more adds its place.
class Error : public std::runtime_error {
  public:
    Error(ErrorCode code, std::string message)
        : std::runtime_error(message), code_(code), message_(std::move(message)) {}

    [[nodiscard]] ErrorCode code() const noexcept { return code_; }
    [[nodiscard]] const char* what() const noexcept override { return message_.c_str(); }

    /// Prepends a place to the message, unless it begins with that place: a level cannot know whether the one
    /// below has named the file already. Catch by reference, add, `throw;`.
    Error& within(std::string_view place) {
        const std::string_view message = message_;
        if (!message.starts_with(place) || !message.substr(place.size()).starts_with(": ")) {
            message_.insert(0, ": ").insert(0, place);
        }
        return *this;
    }

  private:
    ErrorCode code_;
    std::string message_;
};

/// Runs `body` and adds `place` to any Error that leaves it.
template <typename Body>
decltype(auto) within(std::string_view place, Body&& body) {
    try {
        return body();
    } catch (Error& error) {
        error.within(place);
        throw;
    }
}

}  // namespace kaiju
