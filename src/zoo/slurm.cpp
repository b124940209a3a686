#include "zoo/slurm.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "format/stock_types.h"
#include "zoo/process.h"

namespace kaiju::zoo {

namespace fs = std::filesystem;

namespace {

constexpr double kControllerSeconds = 60;

/// Whether a program is on the path.
bool there_is(const std::string& program) {
    const char* path = std::getenv("PATH");
    std::istringstream folders(path == nullptr ? "" : path);
    std::error_code ignored;
    for (std::string folder; std::getline(folders, folder, ':');) {
        if (fs::exists(fs::path(folder) / program, ignored)) {
            return true;
        }
    }
    return false;
}

/// What a command of Slurm answers; what it complains of goes to `log`.
std::string ask(const std::vector<std::string>& words, const fs::path& log = {}) {
    const ProcessResult result =
        run_process(words, {.log = log, .capture = true, .limit_seconds = kControllerSeconds});
    if (result.code != 0) {
        throw Error(ErrorCode::io,
                    fmt::format("{} ended with code {}: {}", words.front(), result.code,
                                log.empty() ? "does the controller answer?" : last_words(log)));
    }
    return result.output;
}

std::string quoted(const std::string& text) {
    std::string safe = "'";
    for (const char c : text) {
        safe += c == '\'' ? std::string("'\\''") : std::string(1, c);
    }
    return safe + "'";
}

std::string trimmed(std::string text) {
    text.erase(text.find_last_not_of(" \n\r\t") + 1);
    return text;
}

/// A path as the value of a directive: sbatch reads quotes, and has patterns of its own.
std::string directive_path(const fs::path& path) {
    const std::string text = path.string();
    const bool odd = std::any_of(text.begin(), text.end(), [](char c) {
        return c == '"' || c == '\'' || c == '\\' || c == '%' || static_cast<unsigned char>(c) < ' ';
    });
    if (odd) {
        throw Error(
            ErrorCode::usage,
            fmt::format("{}: a batch script cannot name this folder: choose a --state whose path is without "
                        "quotes, backslashes and percent signs",
                        format::printable(text)));
    }
    return text.find(' ') == std::string::npos ? text : '"' + text + '"';
}

void check_partition(const std::string& partition) {
    const bool plain = std::all_of(partition.begin(), partition.end(), [](unsigned char c) {
        return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.' || c == ',';
    });
    if (!plain) {
        throw Error(ErrorCode::usage,
                    fmt::format("'{}' is no partition's name", format::printable(partition)));
    }
}

}  // namespace

std::vector<SlurmScript> slurm_scripts(const Plan& plan, const fs::path& folder,
                                       const SlurmOptions& options) {
    constexpr double kSecondsPerMinute = 60;
    constexpr double kMegabytesPerGigabyte = 1024;
    check_partition(options.partition);
    std::vector<SlurmScript> scripts;
    const auto header = [&](const std::string& step, double seconds, double memory_gb) {
        std::string text = fmt::format(
            "#!/bin/bash\n"
            "#SBATCH --job-name=kaiju:{}:{}\n"
            "#SBATCH --export=NONE\n"
            "#SBATCH --requeue\n"
            "#SBATCH --open-mode=append\n"
            "#SBATCH --time={:.0f}\n"
            "#SBATCH --mem={:.0f}M\n"
            "#SBATCH --cpus-per-task={}\n"
            "#SBATCH --output={}\n",
            plan.name, step, std::ceil(seconds / kSecondsPerMinute) + 1,
            std::ceil(memory_gb * kMegabytesPerGigabyte), options.cpus,
            directive_path(folder / "logs" / ("slurm-" + step + ".log")));
        if (!options.partition.empty()) {
            text += fmt::format("#SBATCH --partition={}\n", options.partition);
        }
        return text;
    };
    const std::string set_up =
        options.environment.empty()
            ? std::string("export HOME=${HOME:-$(getent passwd \"$(id -un)\" | cut -d: -f6)}\n")
            : fmt::format(
                  "export HOME=${{HOME:-$(getent passwd \"$(id -un)\" | cut -d: -f6)}}\nset -a\n. {}\nset "
                  "+a\n",
                  quoted(options.environment));
    const std::string run = fmt::format("exec {} zoo run {}", quoted(own_program()), quoted(folder.string()));
    for (const Step& step : plan.steps) {
        SlurmScript script{
            .step = step.name, .text = header(step.name, step.limit_seconds, step.memory_gb), .array = {}};
        script.text += set_up + run + " --step " + step.name;
        if (step.sharded) {
            script.array = fmt::format("0-{}", step.commands.size() - 1);
            script.text += " --shard \"$SLURM_ARRAY_TASK_ID\"";
        }
        script.text += "\n";
        scripts.push_back(std::move(script));
        if (step.sharded) {  // all tasks together are the step: this looks at them and writes its marker
            SlurmScript mark{.step = step.name + "-all",
                             .text = header(step.name + "-all", step.limit_seconds, step.memory_gb),
                             .array = {}};
            mark.text += set_up + run + " --step " + step.name + "\n";
            scripts.push_back(std::move(mark));
        }
    }
    // Whatever became of the chain: the verdict is written.
    SlurmScript last{
        .step = "verdict", .text = header("verdict", kSecondsPerMinute, 1), .array = {}, .after_any = true};
    last.text += set_up + run + " --conclude\n";
    scripts.push_back(std::move(last));
    return scripts;
}

std::string slurm_submit(const std::vector<SlurmScript>& scripts, const fs::path& folder) {
    if (!there_is("sbatch")) {
        throw Error(ErrorCode::missing, "sbatch: not on the path: is Slurm installed here?");
    }
    fs::create_directories(folder / "slurm");
    std::string ids;
    std::string before;
    try {
        for (const SlurmScript& script : scripts) {
            const fs::path path = folder / "slurm" / (script.step + ".sh");
            std::error_code ignored;
            fs::remove(path, ignored);
            write_new_file(path, script.text);
            std::vector<std::string> words{"sbatch", "--parsable"};
            if (!script.array.empty()) {
                words.push_back("--array=" + script.array);
            }
            if (!before.empty()) {
                words.push_back(
                    fmt::format("--dependency={}:{}", script.after_any ? "afterany" : "afterok", before));
                if (!script.after_any) {
                    words.emplace_back("--kill-on-invalid-dep=yes");
                }
            }
            words.push_back(path.string());
            const std::string answer = trimmed(ask(words, folder / "logs" / "sbatch.log"));
            before = answer.substr(0, answer.find(';'));
            ids += (ids.empty() ? "" : ",") + before;
        }
    } catch (...) {
        if (!ids.empty()) {
            slurm_cancel(ids);
        }
        throw;
    }
    return ids;
}

std::vector<SlurmJob> slurm_queue() {
    std::error_code ignored;
    const bool configured =
        std::getenv("SLURM_CONF") != nullptr || fs::exists("/etc/slurm/slurm.conf", ignored);
    if (!configured || !there_is("squeue")) {
        return {};
    }
    std::vector<SlurmJob> jobs;
    std::istringstream lines(
        ask({"squeue", "-h", "-r", "-t", "PENDING,RUNNING,SUSPENDED,COMPLETING,CONFIGURING,REQUEUED", "-o",
             "%i|%T|%j"}));
    for (std::string line; std::getline(lines, line);) {
        const size_t first = line.find('|');
        const size_t second = line.find('|', first + 1);
        if (second == std::string::npos) {
            continue;
        }
        SlurmJob job{.id = line.substr(0, first),
                     .name = line.substr(second + 1),
                     .state = line.substr(first + 1, second - first - 1)};
        if (job.name.starts_with("kaiju:")) {
            jobs.push_back(std::move(job));
        }
    }
    return jobs;
}

bool slurm_alive(const std::string& handle) {
    const std::vector<SlurmJob> queue = slurm_queue();
    std::istringstream ids(handle);
    for (std::string id; std::getline(ids, id, ',');) {
        if (std::any_of(queue.begin(), queue.end(),
                        [&](const SlurmJob& job) { return job.id == id || job.id.starts_with(id + "_"); })) {
            return true;
        }
    }
    return false;
}

void slurm_cancel(const std::string& handle) {
    std::vector<std::string> words{"scancel"};
    std::istringstream ids(handle);
    for (std::string id; std::getline(ids, id, ',');) {
        words.push_back(id);
    }
    (void)ask(words);
}

}  // namespace kaiju::zoo
