// Leases in the store: who works right now, on whatever host.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "zoo/database.h"
#include "zoo/store.h"

namespace kaiju::zoo {

/// The newest lease of one slot. Slot 0 serves feeders and encodes, further slots encodes only (--parallel).
struct Lease {
    uint64_t slot = 0;
    uint64_t token = 0;  ///< counts up with every new holder: the fencing token
    std::string owner;   ///< the job that holds it
    std::string kind;    ///< "encode" or "feed"
    std::string beat;    ///< what the holder wrote last; empty: nothing yet
    bool released = false;
};

/// How a lease looks to this observer.
enum class LeaseView {
    free,     ///< released, or never taken
    held,     ///< held by somebody; also whatever is not known to be dead
    expired,  ///< its heartbeat stood still for a whole term of this host's monotonic clock
};

/// Seconds between heartbeats, and after how long of silence a lease is dead.
struct LeaseTerms {
    double beat = 15;
    double term = 180;
};

/// The leases of a zoo. Objects "zoo/lease/<slot>.<token>" are put on condition of absence, so a slot has one
/// holder; heartbeats replace "zoo/lease/<slot>.<token>.beat". Nobody's wall clock is trusted: an observer
/// notes in its database when it first saw a heartbeat, by its own clock since boot, and a lease is dead once
/// the same heartbeat has been seen for a term without a change. After a restart of the host the observation
/// begins anew.
class Leases {
  public:
    Leases(ObjectStore& store, Database& database, LeaseTerms terms);

    /// The newest lease of every slot that ever had one. Throws io where the store cannot be asked.
    [[nodiscard]] std::vector<Lease> all();
    [[nodiscard]] LeaseView judge(const Lease& lease);

    /// Takes a slot whose newest lease, by its token `seen`, was judged free or expired; 0: the slot never
    /// had one. Nothing where somebody else was faster, however long ago the judgement was.
    [[nodiscard]] std::optional<Lease> take(uint64_t slot, uint64_t seen, const std::string& owner,
                                            const std::string& kind);

  private:
    [[nodiscard]] std::vector<Lease> look();

    ObjectStore& store_;
    Database& database_;
    LeaseTerms terms_;
};

/// Writes a heartbeat. Throws busy where a newer lease of the slot exists: the holder was taken for dead.
void beat_lease(ObjectStore& store, const Lease& lease);
/// Gives a lease back; nothing where it is no longer held, or never was (token 0).
void release_lease(ObjectStore& store, const Lease& lease);

/// Seconds since boot, also while suspended; and the boot's own name.
[[nodiscard]] double boot_seconds();
[[nodiscard]] std::string boot_id();

}  // namespace kaiju::zoo
