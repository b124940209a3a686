#include "zoo/in_flight.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "base/error.h"
#include "zoo/job.h"
#include "zoo/process.h"
#include "zoo/slurm.h"

namespace kaiju::zoo {

namespace {

/// The folder of the job that a process belongs to, from its ancestors' command lines; empty: none.
bool belongs_to_a_job(pid_t pid) {
    for (int depth = 0; depth < 16 && pid > 1; ++depth) {
        std::ifstream words(fmt::format("/proc/{}/cmdline", pid));
        std::string line((std::istreambuf_iterator<char>(words)), std::istreambuf_iterator<char>());
        if (line.find(std::string("\0zoo\0run\0", 9)) != std::string::npos) {
            return true;
        }
        std::ifstream file(fmt::format("/proc/{}/stat", pid));
        std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
        const size_t end = text.rfind(')');
        if (end == std::string::npos) {
            return false;
        }
        std::istringstream fields(text.substr(end + 1));
        std::string state;
        fields >> state >> pid;
    }
    return false;
}

void add_by_hand(std::vector<InFlight>& found) {
    constexpr std::array<std::string_view, 6> kWork{"encode", "encode-tensor", "assemble",
                                                    "ladder", "imatrix",       "capture"};
    for (const RunningProcess& process : processes_like_this()) {
        const auto command = std::find_if(process.words.begin() + 1, process.words.end(),
                                          [](const std::string& word) { return !word.starts_with("-"); });
        const bool works =
            command != process.words.end() && std::find(kWork.begin(), kWork.end(), *command) != kWork.end();
        if (works && process.pid != ::getpid() && !belongs_to_a_job(process.pid)) {
            found.push_back({.what = fmt::format("kaiju {} by hand (process {})", *command, process.pid),
                             .kind = command->starts_with("encode") ? "encode" : "feed",
                             .owner = {}});
        }
    }
}

/// The jobs of this state that are under way.
std::map<std::string, std::string> names_by_owner(State& state) {
    std::map<std::string, std::string> names;
    for (const Attempt& attempt : state.running()) {
        try {
            names[JobFolder(attempt.folder).plan().owner] = attempt.name;
        } catch (const Error&) {  // told below
            continue;
        }
    }
    return names;
}

}  // namespace

std::vector<InFlight> in_flight(ObjectStore& store, State& state, const LeaseTerms& terms,
                                bool share_machine) {
    std::vector<InFlight> found;
    std::set<std::string> owners;
    const std::map<std::string, std::string> own = names_by_owner(state);
    try {
        Leases leases(store, state.database(), terms);
        for (const Lease& lease : leases.all()) {
            if (leases.judge(lease) == LeaseView::held) {
                const auto name = own.find(lease.owner);
                found.push_back({.what = fmt::format("{} {} (lease {}.{})", lease.kind,
                                                     name == own.end() ? "of " + lease.owner : name->second,
                                                     lease.slot, lease.token),
                                 .kind = lease.kind,
                                 .owner = lease.owner});
                owners.insert(lease.owner);
            }
        }
    } catch (const Error& error) {
        found.push_back({.what = fmt::format("unknown: the leases cannot be read: {}", error.what()),
                         .kind = "unknown",
                         .owner = {}});
    }
    std::set<std::string> names;
    for (const Attempt& attempt : state.running()) {
        names.insert(attempt.name);
        try {
            if (JobFolder(attempt.folder).verdict()) {
                continue;  // it has ended, and nobody has taken note yet
            }
            const std::string owner = JobFolder(attempt.folder).plan().owner;
            if (!owners.contains(owner)) {
                found.push_back({.what = fmt::format("{} {}", attempt.kind, attempt.name),
                                 .kind = attempt.kind,
                                 .owner = owner});
            }
        } catch (const Error& error) {
            found.push_back({.what = fmt::format("unknown: {}: {}", attempt.name, error.what()),
                             .kind = "unknown",
                             .owner = {}});
        }
    }
    if (!share_machine) {
        add_by_hand(found);
    }
    try {
        for (const SlurmJob& job : slurm_queue()) {
            const std::string rest = job.name.substr(job.name.find(':') + 1);  // "kaiju:NAME:STEP"
            const std::string name = rest.substr(0, rest.find(':'));
            if (!names.contains(name) &&
                !rest.ends_with(":verdict")) {  // which only writes down how it ended
                found.push_back({.what = fmt::format("{} (Slurm job {})", job.name, job.id),
                                 .kind = "encode",
                                 .owner = {}});
            }
        }
    } catch (const Error& error) {
        found.push_back({.what = fmt::format("unknown: Slurm cannot be asked: {}", error.what()),
                         .kind = "unknown",
                         .owner = {}});
    }
    return found;
}

}  // namespace kaiju::zoo
