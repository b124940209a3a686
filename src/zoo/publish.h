// Publication: a key is claimed first, and only its owner uploads (docs/object-stores.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/monitor.h"
#include "zoo/store.h"

namespace kaiju::zoo {

/// Who may publish a key. The token counts up with every take-over: of several claims the highest one holds,
/// and an owner who was away too long finds that out before publishing.
struct Claim {
    std::string key;
    std::string owner;
    uint64_t token = 0;
};

/// A name for this run that no other run has: host, process, random digits.
[[nodiscard]] std::string unique_owner();

/// Claims a key by writing "<key>.claim.<token>" on condition that it is not there: of many who race exactly
/// one wins. Whoever claims again under the same owner's name gets the same claim. Throws output_exists where
/// the key is published or somebody else has claimed it (`take_over`: only where it is published), missing
/// where the store ignores conditions and therefore cannot be published to.
[[nodiscard]] Claim claim_key(ObjectStore& store, const std::string& key, const std::string& owner,
                              bool take_over = false);

/// The claim that holds now, if there is one.
[[nodiscard]] std::optional<Claim> current_claim(ObjectStore& store, const std::string& key);

/// Throws busy where somebody else's claim holds by now.
void require_holding(ObjectStore& store, const Claim& claim);

/// Uploads a file to a claimed key. Throws output_exists where the key is published, busy as above.
void publish(ObjectStore& store, const Claim& claim, const std::filesystem::path& file, Monitor& monitor);

/// What a store does with conditions, found out by racing.
struct Probe {
    bool reads = false;  ///< what is put comes back, whole and by range
    bool lists = false;
    bool put_conditional = false;       ///< a put on condition of absence does not replace
    bool complete_conditional = false;  ///< nor does the completion of an upload in parts
    std::vector<int> put_winners;       ///< of each race of puts: how many were told that they won
    std::vector<int>
        complete_winners;  ///< the same for completions; more than one is common and harmless here
    /// Claims work here.
    [[nodiscard]] bool publishable() const;
};

/// Races `racers` writers for a key of its own, `rounds` times for puts and completions each, and removes
/// what it wrote.
[[nodiscard]] Probe probe_store(const std::string& address, const StoreOptions& options, int racers = 8,
                                int rounds = 3);

}  // namespace kaiju::zoo
