// What is under way, on any host, however it was started.
#pragma once

#include <string>
#include <vector>

#include "zoo/lease.h"
#include "zoo/state.h"
#include "zoo/store.h"

namespace kaiju::zoo {

struct InFlight {
    std::string what;   ///< for people: "encode smollm2-kaiju1 (lease 0.3)"
    std::string kind;   ///< "encode", "feed" or "unknown"
    std::string owner;  ///< of a lease; empty where it is something else
};

/// Leases that are not known to be dead, attempts of this state that run, jobs in Slurm's queue where there
/// is a Slurm, and kaiju processes on this host that encode or feed and belong to no attempt. What cannot be
/// asked is listed as "unknown": it counts as busy. With share_machine, processes started by hand are
/// nobody's business.
[[nodiscard]] std::vector<InFlight> in_flight(ObjectStore& store, State& state, const LeaseTerms& terms,
                                              bool share_machine);

}  // namespace kaiju::zoo
