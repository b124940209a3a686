#include "zoo/publish.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <latch>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "base/file.h"
#include "format/strict_json.h"

namespace kaiju::zoo {

using nlohmann::json;

namespace {

constexpr std::string_view kClaim = ".claim.";

Bytes bytes_of(std::string_view text) {
    return std::as_bytes(std::span(text));
}

std::string claim_name(const std::string& key, uint64_t token) {
    return fmt::format("{}{}{}", key, kClaim, token);
}

std::optional<uint64_t> token_of(const std::string& name, const std::string& key) {
    const std::string_view digits = std::string_view(name).substr(key.size() + kClaim.size());
    uint64_t token = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), token);
    return error == std::errc() && end == digits.data() + digits.size() ? std::optional(token) : std::nullopt;
}

void require_conditions(ObjectStore& store, const std::string& name, const std::string& text) {
    // Another text, so that a lost answer cannot look like a win.
    if (store.put(name, bytes_of(text + "\n"), Condition::absent)) {
        store.remove(name);
        throw Error(
            ErrorCode::missing,
            fmt::format("{}: the store overwrites what is there although it was told not to: it cannot be "
                        "published to (kaiju store probe tells more)",
                        store.address()));
    }
}

}  // namespace

std::string unique_owner() {
    std::array<char, 256> host{};
    ::gethostname(host.data(), host.size() - 1);
    std::random_device random;
    return fmt::format("{}-{}-{:08x}{:08x}", host.data(), ::getpid(), random(), random());
}

std::optional<Claim> current_claim(ObjectStore& store, const std::string& key) {
    std::optional<Claim> best;
    for (const Object& object : store.list(key + std::string(kClaim))) {
        const std::optional<uint64_t> token = token_of(object.key, key);
        if (token && (!best || *token > best->token)) {
            best = Claim{.key = key, .owner = {}, .token = *token};
        }
    }
    if (best) {
        const std::string name = claim_name(key, best->token);
        within(store.address() + "/" + name, [&] {
            best->owner =
                format::get_text(format::parse_strict_json(get_text(store, name, 1 << 16)), "owner");
        });
    }
    return best;
}

Claim claim_key(ObjectStore& store, const std::string& key, const std::string& owner, bool take_over) {
    if (const size_t at = key.rfind(kClaim);
        at != std::string::npos && token_of(key, key.substr(0, at)).has_value()) {
        throw Error(ErrorCode::usage, fmt::format("{}/{}: is the name of a claim", store.address(), key));
    }
    const auto taken = [&](const std::string& by) {
        return Error(
            ErrorCode::output_exists,
            fmt::format("{}/{}: claimed by {}: nobody else publishes it; if that run is gone for good, "
                        "take the claim over",
                        store.address(), key, by));
    };
    if (store.head(key)) {
        throw Error(
            ErrorCode::output_exists,
            fmt::format("{}/{}: already published; nothing is ever overwritten", store.address(), key));
    }
    const std::optional<Claim> before = current_claim(store, key);
    if (before && before->owner == owner) {
        return *before;
    }
    if (before && !take_over) {
        throw taken(before->owner);
    }
    Claim claim{.key = key, .owner = owner, .token = before ? before->token + 1 : 1};
    const std::string name = claim_name(key, claim.token);
    const std::string text = json{{"owner", owner}, {"token", claim.token}, {"key", key}}.dump();
    if (!store.put(name, bytes_of(text), Condition::absent)) {
        const std::optional<Claim> winner = current_claim(store, key);
        if (!winner || winner->owner != owner) {
            throw taken(winner ? winner->owner : "somebody else");
        }
        return *winner;
    }
    require_conditions(store, name, text);
    return claim;
}

void require_holding(ObjectStore& store, const Claim& claim) {
    const std::optional<Claim> now = current_claim(store, claim.key);
    if (!now || now->owner != claim.owner || now->token != claim.token) {
        throw Error(ErrorCode::busy, fmt::format("{}/{}: the claim was taken over by {}", store.address(),
                                                 claim.key, now ? now->owner : "nobody (it is gone)"));
    }
}

void publish(ObjectStore& store, const Claim& claim, const std::filesystem::path& file, Monitor& monitor) {
    require_holding(store, claim);
    if (!store.put_file(claim.key, file, Condition::absent, monitor)) {
        throw Error(
            ErrorCode::output_exists,
            fmt::format("{}/{}: already published; nothing is ever overwritten", store.address(), claim.key));
    }
}

bool Probe::publishable() const {
    return reads && lists && put_conditional &&
           std::all_of(put_winners.begin(), put_winners.end(), [](int winners) { return winners == 1; });
}

namespace {

/// How many of several writers who start together are told that they won.
int race(int racers, const std::function<bool(int)>& write) {
    std::atomic<int> winners{0};
    std::latch start(racers);
    std::vector<std::thread> threads;
    threads.reserve(static_cast<size_t>(racers));
    std::exception_ptr failure;
    std::mutex mutex;
    for (int i = 0; i < racers; ++i) {
        threads.emplace_back([&, i] {
            try {
                start.arrive_and_wait();
                winners += write(i) ? 1 : 0;
            } catch (...) {
                const std::lock_guard lock(mutex);
                failure = std::current_exception();
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    if (failure) {
        std::rethrow_exception(failure);
    }
    return winners;
}

/// A folder for the files of the races, gone afterwards.
class Scratch {
  public:
    Scratch() : path_(std::filesystem::temp_directory_path() / ("kaiju-" + unique_owner())) {
        std::filesystem::create_directories(path_);
    }
    ~Scratch() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  private:
    std::filesystem::path path_;
};

}  // namespace

namespace {

/// Removes what a probe has put there, whatever became of it.
class ProbeFolder {
  public:
    explicit ProbeFolder(ObjectStore& store) : store_(store) {}
    ~ProbeFolder() {
        try {
            for (const Object& object : store_.list(prefix_)) {
                store_.remove(object.key);
            }
        } catch (const Error&) {  // a store that is away now: nothing more can be done
            return;
        }
    }
    ProbeFolder(const ProbeFolder&) = delete;
    ProbeFolder& operator=(const ProbeFolder&) = delete;
    [[nodiscard]] const std::string& prefix() const { return prefix_; }

  private:
    ObjectStore& store_;
    std::string prefix_ = "kaiju-probe-" + unique_owner() + "/";
};

/// An upload that a race is about: true where the server said that it won, also where another racer's bytes
/// have replaced it since.
bool told_that_it_won(ObjectStore& store, const std::string& key, const std::filesystem::path& file) {
    Monitor silent;
    try {
        return store.put_file(key, file, Condition::absent, silent);
    } catch (const Error& error) {
        if (error.code() != ErrorCode::io || !store.head(key)) {
            throw;
        }
        return true;
    }
}

}  // namespace

Probe probe_store(const std::string& address, const StoreOptions& options, int racers, int rounds) {
    const std::unique_ptr<ObjectStore> store = open_store(address, options);
    if (!store->writable()) {
        throw Error(ErrorCode::usage, fmt::format("{}: can only be read, and a probe writes", address));
    }
    StoreOptions in_parts = options;
    in_parts.whole_bytes = 0;
    const std::unique_ptr<ObjectStore> parts = open_store(address, in_parts);
    const ProbeFolder probed(*store);
    const std::string& folder = probed.prefix();
    const Scratch scratch;
    std::vector<std::filesystem::path> files;
    files.reserve(static_cast<size_t>(racers));
    for (int i = 0; i < racers; ++i) {
        files.push_back(scratch.path() / std::to_string(i));
        write_new_file(files.back(), fmt::format("racer {} of {}", i, racers));
    }
    Probe probe;
    const std::string first = folder + "first";
    const std::string text = "what is put must come back";
    probe.put_conditional = store->put(first, bytes_of(text), Condition::absent);
    const std::optional<Object> there = store->head(first);
    try {
        probe.reads = there && there->size == text.size() &&
                      as_text(store->get(first, 5, 4, there->etag)) == text.substr(5, 4);
    } catch (const Error& error) {
        if (error.code() != ErrorCode::bad_input) {  // a wrong answer is one, no answer is none
            throw;
        }
    }
    const std::vector<Object> listed = store->list(folder);
    probe.lists = listed.size() == 1 && listed.front().key == first;
    probe.put_conditional = probe.put_conditional &&
                            !store->put(first, bytes_of("another text"), Condition::absent) &&
                            get_text(*store, first) == text;
    Monitor quiet;
    bool takes_parts = true;
    try {
        probe.complete_conditional =
            !parts->put_file(first, files.front(), Condition::absent, quiet) &&
            get_text(*store, first) == (probe.put_conditional ? text : "another text");
    } catch (const Error& error) {
        if (error.code() != ErrorCode::io) {
            throw;
        }
        takes_parts = false;  // a server without uploads in parts is one that cannot be published to
    }
    for (int round = 0; round < rounds; ++round) {
        const std::string put_key = fmt::format("{}put-{}", folder, round);
        probe.put_winners.push_back(race(racers, [&](int i) {
            return store->put(put_key, bytes_of(fmt::format("racer {}", i)), Condition::absent);
        }));
        if (!takes_parts) {
            continue;
        }
        const std::string part_key = fmt::format("{}parts-{}", folder, round);
        probe.complete_winners.push_back(race(racers, [&](int i) {
            return told_that_it_won(*parts, part_key, files[static_cast<size_t>(i)]);
        }));
    }
    return probe;
}

}  // namespace kaiju::zoo
