#include "zoo/job.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/file.h"
#include "format/strict_json.h"
#include "zoo/process.h"
#include "zoo/publish.h"
#include "zoo/state.h"
#include "zoo/transfer.h"

namespace kaiju::zoo {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr uint64_t kLongest = uint64_t{64} << 20;

/// Replaces a small file in one step.
void replace_file(const fs::path& path, const std::string& text) {
    fs::path next = path;
    next += fmt::format(".new-{}", ::getpid());
    std::error_code ignored;
    fs::remove(next, ignored);
    write_new_file(next, text);
    fs::rename(next, path);
}

std::optional<json> read_json(const fs::path& path) {
    std::error_code ignored;
    if (!fs::exists(path, ignored)) {
        return std::nullopt;
    }
    return within(path.string(), [&] { return format::parse_strict_json(read_text(path, kLongest)); });
}

/// One runner a job and step.
class Lock {
  public:
    explicit Lock(const fs::path& path) : fd_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
        if (fd_ < 0 || ::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
            if (fd_ >= 0) {
                ::close(fd_);
            }
            throw Error(ErrorCode::busy, fmt::format("{}: another process runs this job", path.string()));
        }
    }
    ~Lock() { ::close(fd_); }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

  private:
    int fd_;
};

/// Keeps the lease alive from a thread of its own, and notices when it is lost.
class Heart {
  public:
    Heart(ObjectStore& store, const Lease& lease, const LeaseTerms& terms) {
        if (lease.token == 0) {
            return;
        }
        beat_lease(store, lease);
        thread_ = std::thread([this, &store, lease, terms] { work(store, lease, terms); });
    }
    ~Heart() {
        {
            const std::lock_guard lock(mutex_);
            over_ = true;
        }
        wake_.notify_all();
        if (thread_.joinable()) {
            thread_.join();
        }
    }
    Heart(const Heart&) = delete;
    Heart& operator=(const Heart&) = delete;
    [[nodiscard]] bool lost() const { return lost_; }

  private:
    void work(ObjectStore& store, const Lease& lease, const LeaseTerms& terms) {
        double last = boot_seconds();
        std::unique_lock lock(mutex_);
        while (!wake_.wait_for(lock, std::chrono::duration<double>(terms.beat), [this] { return over_; })) {
            lock.unlock();
            try {
                beat_lease(store, lease);
                last = boot_seconds();
            } catch (const Error& error) {
                // A store that cannot be reached may be back before the term ends; somebody else's lease is
                // final.
                lost_ = lost_ || error.code() == ErrorCode::busy || boot_seconds() - last > terms.term;
            }
            lock.lock();
        }
    }

    std::thread thread_;
    std::mutex mutex_;
    std::condition_variable wake_;
    bool over_ = false;
    std::atomic<bool> lost_{false};
};

/// Why a step did not end well.
struct Failure {
    int code;
    std::string reason;
};

/// What a step that runs in this process is told: to stop for whatever would end a command, too.
class StepMonitor final : public Monitor {
  public:
    StepMonitor(Monitor& outer, std::function<bool()> keep_going)
        : outer_(outer), keep_going_(std::move(keep_going)) {}
    void info(std::string_view message) override { outer_.info(message); }
    void warn(std::string_view message) override { outer_.warn(message); }
    void begin(std::string_view phase, uint64_t total, std::string_view unit) override {
        outer_.begin(phase, total, unit);
    }
    void advance(uint64_t units) override { outer_.advance(units); }
    void end() override { outer_.end(); }
    [[nodiscard]] bool cancelled() const override { return !keep_going_(); }

  private:
    Monitor& outer_;
    std::function<bool()> keep_going_;
};

class Runner {
  public:
    Runner(JobFolder folder, Monitor& monitor)
        : folder_(std::move(folder)),
          plan_(folder_.plan()),
          store_(open_store(plan_.store, plan_.options)),
          monitor_(monitor),
          step_monitor_(monitor, [this] { return keep_going() && !late(); }) {
        // Commands that read the store by range learn of its endpoint as the library does.
        for (const auto& [name, value] : {std::pair("AWS_ENDPOINT_URL_S3", plan_.options.endpoint),
                                          std::pair("AWS_REGION", plan_.options.region)}) {
            if (!value.empty()) {
                ::setenv(name, value.c_str(), 1);
            }
        }
    }

    int run(const std::string& only, std::optional<uint64_t> shard) {
        const Lock lock(folder_.path() / (shard ? fmt::format("lock-{}", *shard) : std::string("lock")));
        if (const auto code = concluded()) {
            return *code;
        }
        std::optional<Failure> failure;
        std::string at;
        {
            const Heart heart(*store_, plan_.lease, plan_.terms);
            heart_ = &heart;
            for (const Step& step : plan_.steps) {
                if ((!only.empty() && step.name != only) || (!shard && folder_.has_step(step.name))) {
                    continue;
                }
                at = step.name;
                failure = run_step(step, shard);
                if (failure) {
                    break;
                }
            }
            heart_ = nullptr;
        }
        if (failure) {
            return fail(at, *failure);
        }
        if (std::all_of(plan_.steps.begin(), plan_.steps.end(),
                        [&](const Step& step) { return folder_.has_step(step.name); })) {
            conclude({{"state", "done"}, {"step", ""}, {"reason", ""}, {"code", 0}});
        }
        return 0;
    }

    int conclude() {
        const Lock lock(folder_.path() / "lock");
        if (const auto code = concluded()) {
            return *code;
        }
        const auto missing = std::find_if(plan_.steps.begin(), plan_.steps.end(),
                                          [&](const Step& step) { return !folder_.has_step(step.name); });
        if (missing == plan_.steps.end()) {
            conclude({{"state", "done"}, {"step", ""}, {"reason", ""}, {"code", 0}});
            return 0;
        }
        return fail(missing->name, {static_cast<int>(ErrorCode::io),
                                    "ended without a word: killed, out of memory, or at its time limit"});
    }

  private:
    std::optional<Failure> run_step(const Step& step, std::optional<uint64_t> shard) {
        folder_.tell(fmt::format("{} begins{}", step.name, shard ? fmt::format(" (shard {})", *shard) : ""));
        monitor_.info(fmt::format("{}: {}", plan_.name, step.name));
        const auto start = std::chrono::steady_clock::now();
        deadline_ = boot_seconds() + step.limit_seconds;
        std::optional<Failure> failure;
        try {
            if (step.name == "fetch") {
                fetch();
            } else if (step.name == "publish") {
                publish_outputs(false);
            }
            for (size_t i = 0; i < step.commands.size() && !failure; ++i) {
                if (!shard || *shard == i) {
                    failure = run_command(step, i);
                }
            }
        } catch (const Error& error) {
            failure = Failure{static_cast<int>(error.code()), error.what()};
            if (error.code() == ErrorCode::interrupted && keep_going()) {
                failure = Failure{static_cast<int>(ErrorCode::io), limit_text(step)};
            }
        }
        const double seconds =
            std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        if (failure) {
            folder_.tell(fmt::format("{} failed after {:.1f} s with code {}: {}", step.name, seconds,
                                     failure->code, failure->reason));
            return failure;
        }
        if (!shard) {
            folder_.mark(step.name, seconds, 0);
        }
        folder_.tell(fmt::format("{} is done after {:.1f} s", step.name, seconds));
        return std::nullopt;
    }

    static std::string limit_text(const Step& step) {
        return fmt::format("was stopped at its time limit of {:.0f} s", step.limit_seconds);
    }

    [[nodiscard]] bool late() const { return boot_seconds() > deadline_; }

    [[nodiscard]] bool keep_going() const {
        return !monitor_.cancelled() && !folder_.cancel_requested() && (heart_ == nullptr || !heart_->lost());
    }

    void require_going() const {
        if (heart_ != nullptr && heart_->lost()) {
            throw Error(ErrorCode::busy, "the lease was taken over: another run has this job's place");
        }
        if (!keep_going()) {
            throw Error(ErrorCode::interrupted, "stopped");
        }
    }

    std::optional<Failure> run_command(const Step& step, size_t index) {
        require_going();
        const Command& command = step.commands[index];
        // Files alone prove nothing: a gate that says no leaves its log, too.
        const std::string marker = fmt::format("{}-{}", step.name, index);
        if (folder_.has_step(marker) &&
            std::all_of(command.makes.begin(), command.makes.end(),
                        [&](const std::string& file) { return fs::exists(folder_.path() / file); })) {
            return std::nullopt;
        }
        for (const std::string& file : command.makes) {
            fs::remove(folder_.path() / file);
        }
        std::vector<std::string> words = command.words;
        if (words.front() == "kaiju") {
            words.front() = own_program();
        }
        const fs::path log = folder_.path() / "logs" / (step.name + ".log");
        std::error_code ignored;
        const uint64_t said = fs::exists(log, ignored) ? fs::file_size(log) : 0;
        const auto start = std::chrono::steady_clock::now();
        const ProcessResult result = run_process(words, {.folder = folder_.path(),
                                                         .log = log,
                                                         .limit_seconds = step.limit_seconds,
                                                         .keep_going = [this] { return keep_going(); }});
        if (result.stopped) {
            require_going();
        }
        if (result.timed_out) {
            return Failure{static_cast<int>(ErrorCode::io), limit_text(step)};
        }
        if (result.code != 0) {
            return Failure{result.code, fmt::format("{} ended with code {}: {}", command.words.at(1),
                                                    result.code, last_words(log, said))};
        }
        folder_.mark(marker, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(),
                     0);
        return std::nullopt;
    }

    void fetch() {
        for (const Transfer& input : plan_.inputs) {
            require_going();
            const fs::path out = folder_.path() / input.file;
            if (fs::exists(out)) {
                continue;
            }
            within(input.key, [&] { fetch_one(input, out); });
        }
    }

    void fetch_one(const Transfer& input, const fs::path& out) {
        // A key of the store, or a path or an address of its own.
        const bool own = is_address(input.key) || input.key.starts_with("/");
        const ObjectAddress split = own ? split_address(input.key) : ObjectAddress{plan_.store, input.key};
        if (!is_address(split.store) || split.store.starts_with("file://")) {
            const fs::path folder = split.store.starts_with("file://") ? split.store.substr(7) : split.store;
            const fs::path there = fs::absolute(folder / split.key);
            if (!fs::exists(there)) {
                throw Error(ErrorCode::missing, fmt::format("{}: not there", there.string()));
            }
            fs::create_symlink(there, out);  // objects never change: no copy is needed
            return;
        }
        const std::unique_ptr<ObjectStore> other = own ? open_store(split.store, plan_.options) : nullptr;
        download(other ? *other : *store_, split.key, out, step_monitor_);
    }

    /// Publishes all outputs, or after a failed gate only what is published always. What an earlier run of
    /// this job has published is left.
    void publish_outputs(bool only_always) {
        for (const Transfer& output : plan_.outputs) {
            const fs::path file = folder_.path() / output.file;
            if ((only_always && !output.always) || (only_always && !fs::exists(file))) {
                continue;
            }
            require_going();
            within(output.key, [&] {
                if (const std::optional<Object> there = store_->head(output.key)) {
                    const std::optional<Claim> claim = current_claim(*store_, output.key);
                    if (claim && claim->owner == plan_.owner && there->size == fs::file_size(file)) {
                        return;
                    }
                }
                publish(*store_, claim_key(*store_, output.key, plan_.owner), file, step_monitor_);
            });
        }
    }

    int fail(const std::string& step, Failure failure) {
        if (failure.code == static_cast<int>(ErrorCode::interrupted) && !folder_.cancel_requested()) {
            return failure.code;  // no verdict: the job goes on when it is started again
        }
        if (failure.code == static_cast<int>(ErrorCode::busy)) {
            return failure.code;
        }
        const bool gate = failure.code == 1;  // of the step gate, or that of v3's encodes on clamping
        if (gate) {
            try {
                publish_outputs(true);
            } catch (const Error& error) {
                // Without its log the verdict is not final: the gate can be run again.
                folder_.tell(fmt::format("the gate's log could not be published: {}", error.what()));
                failure = {static_cast<int>(error.code()), error.what()};
            }
        }
        const bool cancelled = folder_.cancel_requested();
        conclude({{"state", cancelled ? "cancelled" : "failed"},
                  {"step", step},
                  {"reason", cancelled ? "cancelled" : failure.reason},
                  {"code", failure.code},
                  {"gate", gate && failure.code == 1}});
        return failure.code;
    }

    void conclude(const json& verdict) {
        const std::string key = fmt::format("zoo/jobs/{}.verdict.json", plan_.name);
        const std::string text = verdict.dump();
        try {
            store_->put(key, std::as_bytes(std::span(text)), Condition::none);
        } catch (const Error& error) {
            folder_.tell(fmt::format("the verdict could not be told to the store: {}", error.what()));
        }
        // Before the lease: without it a job that was killed here could never be taken up again.
        folder_.set_verdict(verdict);
        let_go();
        folder_.tell(fmt::format("verdict: {} {}", verdict.at("state").get<std::string>(),
                                 verdict.at("reason").get<std::string>()));
    }

    /// The code of a verdict that is there already. Whoever wrote it may have died before the lease was given
    /// back.
    std::optional<int> concluded() {
        const auto verdict = folder_.verdict();
        if (!verdict) {
            return std::nullopt;
        }
        let_go();
        return verdict->at("code").get<int>();
    }

    /// Gives the lease back. A store that cannot be reached sees it expire.
    void let_go() {
        try {
            release_lease(*store_, plan_.lease);
        } catch (const Error& error) {
            folder_.tell(fmt::format("the lease could not be given back: {}", error.what()));
        }
    }

    JobFolder folder_;
    Plan plan_;
    std::unique_ptr<ObjectStore> store_;
    Monitor& monitor_;
    StepMonitor step_monitor_;
    double deadline_ = 0;  ///< of the step at hand, by boot_seconds
    const Heart* heart_ = nullptr;
};

}  // namespace

int conclude_job(const fs::path& folder, Monitor& monitor) {
    return Runner(JobFolder(fs::absolute(folder)), monitor).conclude();
}

void JobFolder::create(const Plan& plan) const {
    for (const char* name : {"steps", "logs", "in", "out", "work"}) {
        fs::create_directories(path_ / name);
    }
    replace_file(path_ / "plan.json", to_json(plan).dump(1) + "\n");
}

Plan JobFolder::plan() const {
    const std::optional<json> text = read_json(path_ / "plan.json");
    if (!text) {
        throw Error(ErrorCode::missing,
                    fmt::format("{}: not the folder of a job (no plan.json)", path_.string()));
    }
    return within(path_.string(), [&] { return plan_from(*text); });
}

bool JobFolder::has_step(const std::string& name) const {
    return fs::exists(path_ / "steps" / (name + ".json"));
}

std::optional<json> JobFolder::step(const std::string& name) const {
    return read_json(path_ / "steps" / (name + ".json"));
}

void JobFolder::mark(const std::string& name, double seconds, int code) const {
    replace_file(path_ / "steps" / (name + ".json"),
                 json{{"seconds", seconds}, {"code", code}}.dump() + "\n");
}

std::optional<json> JobFolder::verdict() const {
    return read_json(path_ / "verdict.json");
}

void JobFolder::set_verdict(const json& verdict) const {
    replace_file(path_ / "verdict.json", verdict.dump() + "\n");
}

void JobFolder::reopen() const {
    fs::remove(path_ / "verdict.json");
    fs::remove(path_ / "cancel");
    tell("taken up again");
}

void JobFolder::tell(const std::string& line) const {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(
        std::fopen((path_ / "story.log").c_str(), "ab"), &std::fclose);
    if (file) {
        const std::string text =
            fmt::format("{:%Y-%m-%d %H:%M:%S} {}\n", fmt::localtime(std::time(nullptr)), line);
        (void)std::fwrite(text.data(), 1, text.size(), file.get());
    }
}

bool JobFolder::locked() const {
    const int fd = ::open((path_ / "lock").c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    const bool held = ::flock(fd, LOCK_SH | LOCK_NB) != 0;
    ::close(fd);
    return held;
}

void JobFolder::request_cancel() const {
    replace_file(path_ / "cancel", "");
}

bool JobFolder::cancel_requested() const {
    return fs::exists(path_ / "cancel");
}

int run_job(const fs::path& folder, const std::string& only, std::optional<uint64_t> shard,
            Monitor& monitor) {
    return Runner(JobFolder(fs::absolute(folder)), monitor).run(only, shard);
}

}  // namespace kaiju::zoo
