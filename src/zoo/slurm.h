// Slurm as an executor: the plan of a job as batch scripts.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "zoo/plan.h"

namespace kaiju::zoo {

struct SlurmOptions {
    std::string partition;
    std::string environment;  ///< a file on the nodes that sets credentials; read there, never passed along
    int cpus = 1;
};

struct SlurmScript {
    std::string step;
    std::string text;
    std::string array;       ///< "0-3" of a sharded step; empty otherwise
    bool after_any = false;  ///< runs whatever became of the one before
};

/// One script per step; each depends on the one before. `folder` is the job's, on a file system that all
/// nodes share.
[[nodiscard]] std::vector<SlurmScript> slurm_scripts(const Plan& plan, const std::filesystem::path& folder,
                                                     const SlurmOptions& options);

/// Submits them as a chain and returns their job ids, joined by commas. Throws missing where sbatch is not
/// there.
[[nodiscard]] std::string slurm_submit(const std::vector<SlurmScript>& scripts,
                                       const std::filesystem::path& folder);

struct SlurmJob {
    std::string id;
    std::string name;
    std::string state;
};

/// Jobs in the queue whose name begins with "kaiju:"; none where there is no Slurm. Throws io where there is
/// one that does not answer.
[[nodiscard]] std::vector<SlurmJob> slurm_queue();

/// True while a job of the chain may still run.
[[nodiscard]] bool slurm_alive(const std::string& handle);
void slurm_cancel(const std::string& handle);

}  // namespace kaiju::zoo
