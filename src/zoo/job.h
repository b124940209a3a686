// Carrying out a job: step after step, each with its marker, time limit and log, resumable after any death.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "base/monitor.h"
#include "zoo/plan.h"

namespace kaiju::zoo {

/// The folder of a job tells its story:
///     plan.json           what is to be done
///     steps/NAME.json     the marker of a finished step: seconds, exit code
///     logs/NAME.log       everything its commands said
///     story.log           a line for every start, end and failure
///     verdict.json        how it ended: {"state": "done" | "failed" | "cancelled", "step", "reason", "code"}
///     in/, out/, work/    files
class JobFolder {
  public:
    explicit JobFolder(std::filesystem::path path) : path_(std::move(path)) {}

    [[nodiscard]] const std::filesystem::path& path() const { return path_; }
    void create(const Plan& plan) const;
    [[nodiscard]] Plan plan() const;
    [[nodiscard]] bool has_step(const std::string& name) const;
    /// Seconds and code of a finished step.
    [[nodiscard]] std::optional<nlohmann::json> step(const std::string& name) const;
    void mark(const std::string& name, double seconds, int code) const;
    [[nodiscard]] std::optional<nlohmann::json> verdict() const;
    void set_verdict(const nlohmann::json& verdict) const;
    /// Takes the verdict of a failure back, so that the job can go on.
    void reopen() const;
    void tell(const std::string& line) const;
    /// Asks the runner to stop at its next safe place and to call the job cancelled.
    /// Whether a process of this host runs the job right now.
    [[nodiscard]] bool locked() const;
    void request_cancel() const;
    [[nodiscard]] bool cancel_requested() const;

  private:
    std::filesystem::path path_;
};

/// Runs what is left of a job, or one step of it (`only`; with `shard` only that command of a sharded step),
/// and returns the exit code: 0 done, 1 the gate said no, otherwise why it failed. Holds the job's lease by
/// its heartbeat; stops with busy where it was taken over. Throws busy where another process runs the job.
int run_job(const std::filesystem::path& folder, const std::string& only, std::optional<uint64_t> shard,
            Monitor& monitor);

/// Writes the verdict of a job whose executor has ended without one: failed, at its first step without a
/// marker.
int conclude_job(const std::filesystem::path& folder, Monitor& monitor);

}  // namespace kaiju::zoo
