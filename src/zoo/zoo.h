// The zoo: a catalogue, a store and a state, and what can be done with them (docs/zoo.md).
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/monitor.h"
#include "zoo/catalogue.h"
#include "zoo/in_flight.h"
#include "zoo/lease.h"
#include "zoo/plan.h"
#include "zoo/slurm.h"
#include "zoo/state.h"
#include "zoo/store.h"

namespace kaiju::zoo {

struct ZooOptions {
    std::filesystem::path catalogue;
    std::string store;  ///< empty: the catalogue's
    std::filesystem::path state = "zoo-state";
    StoreOptions store_options{};
    LeaseTerms terms{};
    std::string executor = "local";  ///< or "slurm"
    SlurmOptions slurm{};
    int threads = 1;
    bool share_machine = false;  ///< processes started by hand on this host are not in the way
    uint64_t parallel = 1;       ///< encodes at once
    int64_t restarts = 3;        ///< of a job whose process died
    double cost_per_hour = 0;
};

/// Where a model stands.
enum class Standing {
    done,
    running,
    waiting,  ///< for prerequisites that somebody else makes
    ready,    ///< its prerequisites are there
    to_feed,  ///< its feeder can be submitted
    failed,   ///< nothing moves it until somebody does (retry, hold)
    on_hold,
    out_of_scope,
};
[[nodiscard]] std::string_view standing_name(Standing standing);

struct ModelStanding {
    const Model* model = nullptr;
    Standing standing = Standing::waiting;
    std::string note;
    std::string seen;  ///< of a ready one: what its prerequisites look like
};

/// What a tick came to.
struct Tick {
    std::string action;  ///< what was done, empty: nothing
    std::vector<ModelStanding> models;
    /// 0 there is something left to wait for; 11 every model that is not on hold or out of scope is done; 12
    /// nothing can move any more, and some failed.
    int code = 0;
};

class Zoo {
  public:
    explicit Zoo(const ZooOptions& options);

    [[nodiscard]] const Catalogue& catalogue() const { return catalogue_; }
    [[nodiscard]] ObjectStore& store() { return *store_; }
    [[nodiscard]] State& state() { return state_; }
    [[nodiscard]] const ZooOptions& options() const { return options_; }

    /// Where every model stands, in the catalogue's order, from one listing of the store and the state.
    [[nodiscard]] std::vector<ModelStanding> standings();
    [[nodiscard]] std::vector<InFlight> in_flight();

    /// The job that would encode this model next, prerequisites and limits checked: throws missing (naming
    /// the feeder's command), output_exists (a v1 attempt was made before), busy (a prerequisite is unknown).
    /// Nothing is claimed.
    [[nodiscard]] Plan plan_encode(const Model& model);
    [[nodiscard]] Plan plan_feed(const Model& model);

    /// Checks that nothing is in the way, takes a lease, reserves the key by its claim, makes the folder and
    /// starts the job. Throws busy where anything is in flight (or unknown).
    Attempt submit(Plan plan, Monitor& monitor);

    /// Takes note of what running jobs have come to; starts again those whose process died.
    void sync(Monitor& monitor);
    /// One action at most.
    [[nodiscard]] Tick tick(Monitor& monitor);

    void cancel(const Model& model, Monitor& monitor);
    /// Lets a failed attempt go on, or a feeder start anew. Throws output_exists for a v1 whose gate said no.
    void retry(const Model& model, Monitor& monitor);
    /// Makes attempts again from what the store knows. Returns how many.
    size_t rebuild(Monitor& monitor);
    [[nodiscard]] Estimate estimate_of(const Plan& plan);

  private:
    [[nodiscard]] uint64_t next_number(const Model& model);
    [[nodiscard]] ModelStanding stand(const Model& model,
                                      const std::map<std::string, std::vector<Attempt>>& attempts,
                                      const std::map<std::string, std::string>& holds,
                                      const class Listing& listing);
    [[nodiscard]] bool encodes_elsewhere();
    [[nodiscard]] std::string in_the_way(bool feed);
    [[nodiscard]] Lease take_slot(const Plan& plan);
    [[nodiscard]] bool is_held(const Plan& plan);
    void start(Attempt& attempt, const Plan& plan);
    void take_note(Attempt attempt, Monitor& monitor);
    void revive(Attempt attempt, Monitor& monitor);

    ZooOptions options_;
    Catalogue catalogue_;
    std::string store_address_;
    std::unique_ptr<ObjectStore> store_;
    State state_;
    std::optional<double> sampled_rate_;
    /// Models that seemed ready and are not, with what was seen of them: they are not asked about again
    /// before that changes.
    std::map<std::string, std::pair<std::string, std::string>> refused_;
    std::map<std::string, std::string> told_;  ///< what the log was last told of a model that is skipped
    std::optional<bool> elsewhere_;            ///< whether somebody encodes, asked at most once a listing
};

}  // namespace kaiju::zoo
