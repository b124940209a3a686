// What a job will do: the same object for every executor.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "zoo/catalogue.h"
#include "zoo/lease.h"
#include "zoo/prerequisites.h"
#include "zoo/store.h"

namespace kaiju::zoo {

/// Options of a gate, derived from the qspec and the catalogue's limits; nothing is typed by hand.
struct GateParameters {
    std::vector<uint32_t> prompt_tokens;
    uint32_t expect_token = 0;
    uint32_t reject_token = 0;
    std::optional<double> ppl_max;
    std::optional<double> kl_max;
    std::string reference;  ///< key; empty: none
    std::string text;       ///< key or path; empty: none
    std::optional<uint64_t> ctx;
    std::optional<uint64_t> chunks;
    std::vector<std::string> remarks;  ///< such as that v1 runs without limits
};

/// Throws missing where v3 lacks a limit, or limits lack the text they are measured on.
[[nodiscard]] GateParameters gate_parameters(const Catalogue& catalogue, const Model& model,
                                             const format::Qspec& qspec);
[[nodiscard]] nlohmann::json to_json(const GateParameters& parameters);
/// "KAIJU_EXPECT_TOKEN=7042" lines that a shell can read.
[[nodiscard]] std::string to_shell(const GateParameters& parameters);

/// A command line; the word "kaiju" at the front stands for the program that runs the job.
struct Command {
    std::vector<std::string> words;
    std::vector<std::string>
        makes;  ///< files: where it ended well and all are there it need not run; otherwise they go first
};

/// One step of a job. Commands run in the job's folder one after another; of a sharded step a node may be
/// told to run only one. Steps without commands are fetch and publish, which the runner does itself.
struct Step {
    std::string name;
    double limit_seconds = 0;
    double memory_gb = 0;
    std::vector<Command> commands{};
    bool sharded = false;  ///< its commands are independent of each other
};

struct Transfer {
    std::string file;     ///< in the job's folder
    std::string key;      ///< in the store, or a path or address of its own
    bool always = false;  ///< published also where the gate failed
};

struct Plan {
    std::string name;  ///< of the job and its folder
    std::string kind;  ///< "encode" or "feed"
    std::string model;
    std::string encoder;
    std::string key;    ///< of the knot
    std::string owner;  ///< of the claim and the lease
    std::string store;
    StoreOptions options;
    std::vector<Transfer> inputs{};
    std::vector<Transfer> outputs{};  ///< in the order of publication: what others wait for comes last
    std::vector<Step> steps{};
    Lease lease{};
    LeaseTerms terms{};
    double weights = 0;
    double disk_gb = 0;
};

[[nodiscard]] nlohmann::json to_json(const Plan& plan);
[[nodiscard]] Plan plan_from(const nlohmann::json& json);  ///< throws bad_input

/// The job that encodes a model. `number`: which attempt; owner, lease and store are the caller's to fill.
[[nodiscard]] Plan plan_encode_job(const Catalogue& catalogue, const Model& model, const Readiness& readiness,
                                   const GateParameters& gate, uint64_t number, const std::string& store,
                                   int threads);

/// The job that feeds one.
[[nodiscard]] Plan plan_feed_job(const Catalogue& catalogue, const Model& model, uint64_t number,
                                 const std::string& store, const StoreOptions& options, int threads);

/// What an encode of `weights` weights will take at `rate` weights per second on each of `shards` nodes.
struct Estimate {
    double seconds = 0;
    double cost = 0;
    bool measured = false;  ///< whether the rate is one of finished encodes here
};
[[nodiscard]] Estimate estimate(double weights, uint64_t shards, double rate, bool measured,
                                double cost_per_hour);

/// Weights per second of encoder v1 on synthetic rows here and now; takes a fraction of a second.
[[nodiscard]] double sample_rate(int threads);

}  // namespace kaiju::zoo
