#include "zoo/zoo.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/error.h"
#include "format/strict_json.h"
#include "zoo/job.h"
#include "zoo/prerequisites.h"
#include "zoo/process.h"
#include "zoo/publish.h"

namespace kaiju::zoo {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr int kAllDone = 11;
constexpr int kStuck = 12;
constexpr int64_t kFeedAttempts = 1;

std::string address_of(const ZooOptions& options, const Catalogue& catalogue) {
    const std::string& given = options.store.empty() ? catalogue.store : options.store;
    if (given.empty()) {
        throw Error(ErrorCode::usage, "no store: give --store, or the catalogue a \"store\"");
    }
    // Jobs run in folders of their own.
    if (given.starts_with("file://")) {
        return "file://" + fs::absolute(given.substr(7)).string();
    }
    return is_address(given) ? given : fs::absolute(given).string();
}

std::string job_key(const std::string& name) {
    return fmt::format("zoo/jobs/{}.json", name);
}

}  // namespace

std::string_view standing_name(Standing standing) {
    constexpr std::array<std::string_view, 8> kNames{"done",    "running", "waiting", "ready",
                                                     "to-feed", "failed",  "on-hold", "out-of-scope"};
    return kNames.at(static_cast<size_t>(standing));
}

Zoo::Zoo(const ZooOptions& options)
    : options_(options),
      catalogue_(read_catalogue(options.catalogue)),
      store_address_(address_of(options, catalogue_)),
      store_(open_store(store_address_, options.store_options)),
      state_(fs::absolute(options.state)) {}

std::vector<InFlight> Zoo::in_flight() {
    return zoo::in_flight(*store_, state_, options_.terms, options_.share_machine);
}

ModelStanding Zoo::stand(const Model& model, const std::map<std::string, std::vector<Attempt>>& attempts,
                         const std::map<std::string, std::string>& holds, const Listing& listing) {
    const auto at = [&](Standing standing, std::string note) {
        return ModelStanding{.model = &model, .standing = standing, .note = std::move(note), .seen = {}};
    };
    if (model.wanted == Wanted::out_of_scope) {
        return at(Standing::out_of_scope, model.reason);
    }
    const auto own = attempts.find(model.id);
    const Attempt* last = own == attempts.end() ? nullptr : &own->second.back();
    if (last != nullptr && last->state == "running") {
        return at(Standing::running, fmt::format("{} {}", last->name, last->step));
    }
    // What the store has counts for every state; a v3 attempt that this state knows of may be a later one.
    const bool encoded_here =
        own != attempts.end() && std::any_of(own->second.begin(), own->second.end(),
                                             [](const Attempt& one) { return one.kind == "encode"; });
    if (model.encoder == "v1") {
        if (listing.contains(model.stem(1) + ".knot")) {
            return at(Standing::done, model.stem(1) + ".knot");
        }
    } else if (last != nullptr && last->kind == "encode" && last->state == "done") {
        return at(Standing::done, last->key);
    } else if (const Object* knot = listing.knot_of_series(model); knot != nullptr && !encoded_here) {
        return at(Standing::done, knot->key);
    }
    if (const auto hold = holds.find(model.id); hold != holds.end()) {
        return at(Standing::on_hold, hold->second);
    }
    if (model.wanted == Wanted::hold) {
        return at(Standing::on_hold, model.reason);
    }
    const bool stopped = last != nullptr && (last->state == "failed" || last->state == "cancelled");
    const std::string why =
        stopped ? fmt::format("{} {} at {}: {}", last->name, last->state, last->step, last->verdict) : "";
    if (stopped && last->kind == "encode") {
        return at(Standing::failed, why);
    }
    if (seems_ready(listing, model)) {
        const bool claimed = model.encoder == "v1"
                                 ? listing.contains(model.stem(1) + ".knot.claim.1")
                                 : !encoded_here && listing.first_with(model.series()) != nullptr;
        if (claimed) {
            return encodes_elsewhere()
                       ? at(Standing::waiting, "its key is claimed by a run elsewhere")
                       : at(Standing::failed,
                            "an attempt that this state does not know has claimed its key: kaiju zoo "
                            "rebuild");
        }
        ModelStanding ready = at(Standing::ready, "");
        ready.seen = listing.fingerprint(model);
        if (const auto refused = refused_.find(model.id);
            refused != refused_.end() && refused->second.first == ready.seen) {
            return at(Standing::failed, refused->second.second);
        }
        return ready;
    }
    if (stopped) {
        return at(Standing::failed, why);
    }
    if (model.wanted == Wanted::external) {
        return at(Standing::waiting, "somebody else feeds it");
    }
    const auto feeds = own == attempts.end()
                           ? 0
                           : std::count_if(own->second.begin(), own->second.end(),
                                           [](const Attempt& attempt) { return attempt.kind == "feed"; });
    if (model.source.empty()) {
        return at(Standing::failed, "prerequisites are missing, and no \"source\" to make them of");
    }
    if (feeds >= kFeedAttempts) {
        return at(Standing::failed, "its feeder is done, and prerequisites are still missing");
    }
    return at(Standing::to_feed, model.source);
}

bool Zoo::encodes_elsewhere() {
    if (!elsewhere_) {
        const std::vector<InFlight> flying = in_flight();
        elsewhere_ =
            std::any_of(flying.begin(), flying.end(), [](const InFlight& one) { return one.kind != "feed"; });
    }
    return *elsewhere_;
}

std::vector<ModelStanding> Zoo::standings() {
    elsewhere_.reset();
    const Listing listing(store_->list("models/"));
    std::map<std::string, std::vector<Attempt>> attempts;
    for (Attempt& attempt : state_.attempts()) {
        attempts[attempt.model].push_back(std::move(attempt));
    }
    const std::map<std::string, std::string> holds = state_.holds();
    std::vector<ModelStanding> all;
    all.reserve(catalogue_.models.size());
    for (const Model& model : catalogue_.models) {
        all.push_back(stand(model, attempts, holds, listing));
    }
    return all;
}

uint64_t Zoo::next_number(const Model& model) {
    if (model.encoder == "v1") {
        const std::string key = model.stem(1) + ".knot";
        if (store_->head(key) || current_claim(*store_, key)) {
            throw Error(
                ErrorCode::output_exists,
                fmt::format("{}/{}: published or claimed before: there is one v1 attempt an id; a second one "
                            "needs a new id in the catalogue, such as {}.b",
                            store_->address(), key, model.id));
        }
        return 1;
    }
    // A number is used as soon as it is claimed, whatever became of it.
    uint64_t number = 1;
    const std::string prefix = model.series();
    for (const Object& object : store_->list(prefix)) {
        uint64_t used = 0;
        for (const char c : object.key.substr(prefix.size())) {
            if (c < '0' || c > '9' || used > UINT32_MAX) {
                break;
            }
            used = 10 * used + static_cast<uint64_t>(c - '0');
        }
        number = std::max(number, used + 1);
    }
    return number;
}

Plan Zoo::plan_encode(const Model& model) {
    if (model.wanted == Wanted::out_of_scope || model.wanted == Wanted::hold ||
        state_.holds().contains(model.id)) {
        throw Error(ErrorCode::usage,
                    fmt::format("{}: {} ({})", model.id,
                                model.wanted == Wanted::out_of_scope ? "out of scope" : "on hold",
                                model.reason.empty() ? "kaiju zoo unhold frees it" : model.reason));
    }
    for (const Attempt& attempt : state_.attempts_of(model.id)) {
        if (attempt.state == "running") {
            throw Error(ErrorCode::busy, fmt::format("{}: {} is under way", model.id, attempt.name));
        }
    }
    const Readiness readiness = probe_model(*store_, model);
    if (!readiness.ready()) {
        if (readiness.unknown()) {
            throw Error(ErrorCode::busy,
                        fmt::format("{}: whether it is ready is unknown: {}", model.id, readiness.lacking()));
        }
        throw Error(
            ErrorCode::missing,
            fmt::format("{}: not ready: {}; {}", model.id, readiness.lacking(),
                        model.source.empty()
                            ? std::string("put it into the store, or give the model a \"source\"")
                            : fmt::format("kaiju zoo submit {} --feed makes what is missing, but nothing "
                                          "again that is there",
                                          model.id)));
    }
    const GateParameters gate = gate_parameters(catalogue_, model, *readiness.qspec);
    Plan plan = zoo::plan_encode_job(catalogue_, model, readiness, gate, next_number(model), store_address_,
                                     options_.threads);
    plan.options = options_.store_options;
    plan.terms = options_.terms;
    return plan;
}

Plan Zoo::plan_feed(const Model& model) {
    uint64_t feeds = 0;
    for (const Attempt& attempt : state_.attempts_of(model.id)) {
        feeds += attempt.kind == "feed" ? 1 : 0;
    }
    Plan plan =
        plan_feed_job(catalogue_, model, feeds + 1, store_address_, options_.store_options, options_.threads);
    plan.store = store_address_;
    plan.options = options_.store_options;
    plan.terms = options_.terms;
    return plan;
}

/// Two watchers may come here at once: each takes a slot first and looks at the others afterwards, so that of
/// a feeder and an encode at least one sees the other and gives way.
Lease Zoo::take_slot(const Plan& plan) {
    const std::vector<InFlight> others = in_flight();
    const bool encodes =
        plan.kind == "encode" &&
        std::all_of(others.begin(), others.end(), [](const InFlight& one) { return one.kind == "encode"; });
    const uint64_t slots = encodes ? options_.parallel : 1;
    if (!others.empty() && others.size() >= slots) {
        throw Error(ErrorCode::busy,
                    fmt::format("{}: something is in flight: {}", plan.name, others.front().what));
    }
    Leases leases(*store_, state_.database(), options_.terms);
    std::map<uint64_t, uint64_t> seen;  // the token of a slot that may be taken
    for (uint64_t slot = 0; slot < slots; ++slot) {
        seen[slot] = 0;
    }
    for (const Lease& lease : leases.all()) {
        if (leases.judge(lease) == LeaseView::held) {
            seen.erase(lease.slot);
        } else if (lease.slot < slots) {
            seen[lease.slot] = lease.token;
        }
    }
    for (const auto& [slot, token] : seen) {
        if (std::optional<Lease> lease = leases.take(slot, token, plan.owner, plan.kind)) {
            for (const Lease& other : leases.all()) {
                const bool held = other.owner != plan.owner && leases.judge(other) == LeaseView::held;
                if (held && (plan.kind != "encode" || other.kind != "encode" || options_.parallel == 1)) {
                    release_lease(*store_, *lease);
                    throw Error(ErrorCode::busy, fmt::format("{}: {} was faster", plan.name, other.owner));
                }
            }
            return *lease;
        }
    }
    throw Error(ErrorCode::busy, fmt::format("{}: somebody else took the place just now", plan.name));
}

void Zoo::start(Attempt& attempt, const Plan& plan) {
    const JobFolder folder(attempt.folder);
    if (attempt.executor == "slurm") {
        attempt.handle = slurm_submit(slurm_scripts(plan, attempt.folder, options_.slurm), attempt.folder);
    } else {
        attempt.handle = process_handle(start_detached({own_program(), "zoo", "run", attempt.folder},
                                                       folder.path() / "logs" / "runner.log"));
    }
}

Attempt Zoo::submit(Plan plan, Monitor& monitor) {
    plan.owner = unique_owner();
    plan.lease = take_slot(plan);
    Attempt attempt;
    try {
        attempt = {.name = plan.name,
                   .model = plan.model,
                   .kind = plan.kind,
                   .key = plan.key,
                   .state = "running",
                   .verdict = {},
                   .step = {},
                   .executor = options_.executor,
                   .handle = {},
                   .folder = (state_.folder() / "jobs" / plan.name).string(),
                   .started = wall_seconds(),
                   .weights = plan.weights};
        const std::string text = json{
            {"model", plan.model},
            {"kind", plan.kind},
            {"key", plan.key},
            {"owner", plan.owner},
            {"encoder",
             plan.encoder}}.dump();
        store_->put(job_key(plan.name), std::as_bytes(std::span(text)), Condition::none);
        const JobFolder folder(attempt.folder);
        folder.create(plan);
        folder.tell(fmt::format("submitted for {}", plan.model));
        // Noted before it is started: a process that dies in between leaves an attempt that the next tick
        // revives.
        state_.database().transaction([&] {
            attempt.id = state_.add(attempt);
            state_.note(plan.model, fmt::format("{} submitted", plan.name));
        });
        if (!plan.key.empty()) {
            (void)claim_key(*store_, plan.key, plan.owner);
        }
        start(attempt, plan);
        state_.update(attempt);
        monitor.info(
            fmt::format("{}: {} submitted ({} {})", plan.model, plan.name, attempt.executor, attempt.handle));
        return attempt;
    } catch (...) {
        if (attempt.id != 0) {
            state_.remove(attempt.id);
        }
        release_lease(*store_, plan.lease);
        throw;
    }
}

void Zoo::take_note(Attempt attempt, Monitor& monitor) {
    const JobFolder folder(attempt.folder);
    const Plan plan = folder.plan();
    double seconds = 0;
    std::string step;
    state_.database().transaction([&] {
        for (const Step& one : plan.steps) {
            if (const auto marker = folder.step(one.name)) {
                const double taken = marker->value("seconds", 0.0);
                state_.set_step(attempt.id, one.name, taken, marker->value("code", 0));
                seconds += taken;
            } else if (step.empty()) {
                step = one.name;
            }
        }
        attempt.seconds = seconds;
        attempt.step = step;
        if (const auto verdict = folder.verdict()) {
            attempt.state = format::get_text(*verdict, "state");
            attempt.verdict = format::get_text(*verdict, "reason");
            attempt.step = format::get_text(*verdict, "step");
            attempt.ended = wall_seconds();
            state_.note(attempt.model, fmt::format("{} {}{}", attempt.name, attempt.state,
                                                   attempt.verdict.empty() ? "" : ": " + attempt.verdict));
            monitor.info(fmt::format("{}: {} {}", attempt.model, attempt.name, attempt.state));
        }
        state_.update(attempt);
    });
    if (attempt.state == "running") {
        revive(attempt, monitor);
        return;
    }
    if (attempt.executor == "slurm") {
        try {  // what is left of the chain waits for something that will never be
            slurm_cancel(attempt.handle);
        } catch (const Error& error) {
            monitor.warn(error.what());
        }
    }
    release_lease(*store_, plan.lease);  // the job may have died between its verdict and this
}

/// Whether a job's lease still counts, by this observer's own clock: the wall clock may have jumped.
bool Zoo::is_held(const Plan& plan) {
    Leases leases(*store_, state_.database(), options_.terms);
    for (const Lease& lease : leases.all()) {
        if (lease.owner == plan.owner && lease.slot == plan.lease.slot && lease.token == plan.lease.token) {
            return leases.judge(lease) == LeaseView::held;
        }
    }
    return false;
}

void Zoo::revive(Attempt attempt, Monitor& monitor) {
    const bool slurm = attempt.executor == "slurm";
    const JobFolder folder(attempt.folder);
    const bool alive = slurm ? slurm_alive(attempt.handle) : process_alive(attempt.handle) || folder.locked();
    Plan plan = folder.plan();
    if (attempt.handle.empty() && is_held(plan)) {
        return;  // whoever submits it is about to start it
    }
    if (alive) {
        if (slurm) {  // while it waits in the queue nobody else keeps its lease
            beat_lease(*store_, plan.lease);
        }
        return;
    }
    if (folder.verdict()) {
        return;  // it ended just now; the next tick takes note
    }
    if (attempt.restarts >= options_.restarts) {
        (void)conclude_job(attempt.folder, monitor);
        return;
    }
    try {
        beat_lease(*store_, plan.lease);
    } catch (const Error& error) {
        if (error.code() != ErrorCode::busy) {
            throw;
        }
        plan.lease = take_slot(plan);  // throws busy where somebody works meanwhile: later, then
        folder.create(plan);
    }
    attempt.restarts += 1;
    folder.tell(
        fmt::format("its process died: started again ({} of {})", attempt.restarts, options_.restarts));
    monitor.warn(fmt::format("{}: the process of {} died: it is started again", attempt.model, attempt.name));
    start(attempt, plan);
    state_.database().transaction([&] {
        state_.update(attempt);
        state_.note(attempt.model, fmt::format("{} started again", attempt.name));
    });
}

void Zoo::sync(Monitor& monitor) {
    for (const Attempt& attempt : state_.running()) {
        try {
            take_note(attempt, monitor);
        } catch (const Error& error) {
            monitor.warn(fmt::format("{}: {}", attempt.name, error.what()));
        }
    }
}

/// What keeps a job from being submitted now; empty: nothing.
std::string Zoo::in_the_way(bool feed) {
    const std::vector<InFlight> others = in_flight();
    const bool beside =
        !feed && others.size() < options_.parallel &&
        std::all_of(others.begin(), others.end(), [](const InFlight& one) { return one.kind == "encode"; });
    return others.empty() || beside ? "" : others.front().what;
}

Tick Zoo::tick(Monitor& monitor) {
    sync(monitor);
    Tick tick{.action = {}, .models = standings()};
    std::map<bool, std::string> way;  // by whether it is a feeder: looked at once, however many are ready
    bool moving = false;
    bool failed = false;
    for (ModelStanding& one : tick.models) {
        const std::string& id = one.model->id;
        const bool apart = one.standing == Standing::on_hold || one.standing == Standing::out_of_scope;
        if (apart || one.standing == Standing::waiting) {
            const std::string said =
                fmt::format("{}: skipped, {}: {}", id, standing_name(one.standing), one.note);
            if (std::string& last = told_[id]; last != said) {  // once, not at every tick of months
                monitor.warn(said);
                last = said;
            }
        } else if ((one.standing == Standing::ready || one.standing == Standing::to_feed) &&
                   tick.action.empty()) {
            try {
                const bool feed = one.standing == Standing::to_feed;
                if (!way.contains(feed)) {
                    way[feed] = in_the_way(feed);
                    if (!way[feed].empty()) {
                        monitor.info(fmt::format("{} waits: in flight: {}", id, way[feed]));
                    }
                }
                if (!way[feed].empty()) {
                    one.note = "in flight: " + way[feed];
                    moving = true;
                    continue;
                }
                tick.action = submit(feed ? plan_feed(*one.model) : plan_encode(*one.model), monitor).name;
                one.standing = Standing::running;
            } catch (const Error& error) {
                monitor.warn(fmt::format("{}: {}", id, error.what()));
                one.note = error.what();
                // What is busy or cannot be asked may change by itself; what is broken does not.
                const bool passing = error.code() == ErrorCode::busy || error.code() == ErrorCode::io;
                if (!passing) {
                    one.standing = Standing::failed;
                    if (!one.seen.empty()) {
                        refused_[id] = {one.seen, one.note};
                    }
                }
            }
        }
        failed = failed || one.standing == Standing::failed;
        moving = moving || one.standing == Standing::running || one.standing == Standing::waiting ||
                 one.standing == Standing::ready || one.standing == Standing::to_feed;
    }
    tick.code = moving ? 0 : failed ? kStuck : kAllDone;
    return tick;
}

void Zoo::cancel(const Model& model, Monitor& monitor) {
    for (const Attempt& attempt : state_.attempts_of(model.id)) {
        if (attempt.state != "running") {
            continue;
        }
        JobFolder(attempt.folder).request_cancel();
        if (attempt.executor == "slurm") {
            slurm_cancel(attempt.handle);
        }
        if (attempt.executor != "local" || !process_alive(attempt.handle)) {
            try {
                (void)conclude_job(attempt.folder, monitor);
                take_note(attempt, monitor);
            } catch (const Error& error) {
                if (error.code() !=
                    ErrorCode::busy) {  // its runner is still at work, and will see the request
                    throw;
                }
            }
        }
        state_.note(model.id, fmt::format("{}: cancel asked for", attempt.name));
        return;
    }
    throw Error(ErrorCode::usage, fmt::format("{}: nothing of it is running", model.id));
}

void Zoo::retry(const Model& model, Monitor& monitor) {
    const std::vector<Attempt> attempts = state_.attempts_of(model.id);
    if (attempts.empty() || (attempts.back().state != "failed" && attempts.back().state != "cancelled")) {
        throw Error(ErrorCode::usage, fmt::format("{}: its last attempt has not failed", model.id));
    }
    Attempt last = attempts.back();
    if (last.kind == "feed" || last.folder.empty()) {
        (void)submit(last.kind == "feed" ? plan_feed(model) : plan_encode(model), monitor);
        return;
    }
    const JobFolder folder(last.folder);
    const auto verdict = folder.verdict();
    if (verdict && verdict->value("gate", false)) {
        (void)submit(plan_encode(model), monitor);  // a new number for v3; for v1 this says what to do
        return;
    }
    Plan plan = folder.plan();
    plan.lease = take_slot(plan);
    folder.create(plan);
    folder.reopen();
    last.state = "running";
    last.verdict.clear();
    last.restarts = 0;
    start(last, plan);
    state_.database().transaction([&] {
        state_.update(last);
        state_.note(model.id, fmt::format("{} taken up again", last.name));
    });
}

size_t Zoo::rebuild(Monitor& monitor) {
    const std::vector<Object> jobs = store_->list("zoo/jobs/");
    const Listing listing(jobs);
    std::vector<Attempt> attempts;
    for (const Object& object : jobs) {
        constexpr std::string_view kEnd = ".json";
        constexpr std::string_view kVerdict = ".verdict.json";
        if (!object.key.ends_with(kEnd) || object.key.ends_with(kVerdict)) {
            continue;
        }
        const std::string name = object.key.substr(9, object.key.size() - 9 - kEnd.size());
        within(object.key, [&] {
            const json job = format::parse_strict_json(get_text(*store_, object.key));
            Attempt attempt{.name = name,
                            .model = format::get_text(job, "model"),
                            .kind = format::get_text(job, "kind"),
                            .key = format::get_text(job, "key"),
                            .state = "failed",
                            .verdict = "no verdict in the store: it was running when the state was lost",
                            .step = {},
                            .executor = "local",
                            .handle = {},
                            .folder = {}};
            const fs::path folder = state_.folder() / "jobs" / name;
            if (fs::exists(folder / "plan.json")) {
                attempt.folder = folder.string();
            }
            const std::string verdict_key = fmt::format("zoo/jobs/{}.verdict.json", name);
            if (listing.contains(verdict_key)) {
                const json verdict = format::parse_strict_json(get_text(*store_, verdict_key));
                attempt.state = format::get_text(verdict, "state");
                attempt.verdict = format::get_text(verdict, "reason");
                attempt.step = format::get_text(verdict, "step");
            } else if (!attempt.folder.empty()) {
                attempt.state = "running";  // the next tick finds out whether it lives, and goes on with it
                attempt.verdict.clear();
            }
            attempts.push_back(std::move(attempt));
        });
    }
    // In the order in which they were made: feeds first, then by number.
    std::stable_sort(attempts.begin(), attempts.end(), [](const Attempt& a, const Attempt& b) {
        const auto rank = [](const Attempt& one) {
            return std::tuple(one.kind == "encode", one.name.size(), std::string_view(one.name));
        };
        return rank(a) < rank(b);
    });
    state_.database().transaction([&] {
        state_.forget_all();
        for (const Attempt& attempt : attempts) {
            state_.add(attempt);
        }
        state_.note("", fmt::format("rebuilt from the store: {} attempts", attempts.size()));
    });
    monitor.info(fmt::format("{} attempts", attempts.size()));
    return attempts.size();
}

Estimate Zoo::estimate_of(const Plan& plan) {
    uint64_t shards = 1;
    for (const Step& step : plan.steps) {
        shards = step.sharded ? step.commands.size() : shards;
    }
    const std::optional<double> measured = state_.measured_rate();
    if (!measured && !sampled_rate_) {
        sampled_rate_ = sample_rate(options_.threads);
    }
    return estimate(plan.weights, shards, measured ? *measured : *sampled_rate_, measured.has_value(),
                    options_.cost_per_hour);
}

}  // namespace kaiju::zoo
