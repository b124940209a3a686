// How long operations talk to their caller while they work.
#pragma once

#include <cstdint>
#include <string_view>

namespace kaiju {

/// What a long operation reports, and how it is told to stop. The library never prints: the command line
/// implements this with a progress bar on a terminal and plain lines elsewhere; the default does nothing.
/// Calls may come from several threads; implementations synchronise.
class Monitor {
  public:
    virtual ~Monitor() = default;
    virtual void info(std::string_view /*message*/) {}
    virtual void warn(std::string_view /*message*/) {}
    /// Starts a phase of `total` units (weights, chunks, bytes). Phases do not nest: a new one replaces the
    /// old.
    virtual void begin(std::string_view /*phase*/, uint64_t /*total*/, std::string_view /*unit*/) {}
    virtual void advance(uint64_t /*units*/) {}
    virtual void end() {}
    [[nodiscard]] virtual bool cancelled() const { return false; }

    /// Throws Error(interrupted) once the caller wants to stop. Long loops call this between units of work.
    void check_cancelled() const;
};

}  // namespace kaiju
