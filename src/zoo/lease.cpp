#include "zoo/lease.h"

#include <fmt/format.h>

#include <charconv>
#include <ctime>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "base/file.h"
#include "format/strict_json.h"

namespace kaiju::zoo {

using nlohmann::json;

namespace {

constexpr std::string_view kFolder = "zoo/lease/";
constexpr uint64_t kLongest = uint64_t{1} << 16;
constexpr int kLooks = 8;

std::string name_of(uint64_t slot, uint64_t token) {
    return fmt::format("{}{}.{}", kFolder, slot, token);
}

/// "zoo/lease/SLOT.TOKEN[.WHAT]" taken apart.
struct Name {
    uint64_t slot = 0;
    uint64_t token = 0;
    std::string what;
};

std::optional<Name> parse_name(std::string_view key) {
    if (!key.starts_with(kFolder)) {
        return std::nullopt;
    }
    key.remove_prefix(kFolder.size());
    Name name;
    const char* const end = key.data() + key.size();
    const auto [dot, first] = std::from_chars(key.data(), end, name.slot);
    if (first != std::errc() || dot == end || *dot != '.') {
        return std::nullopt;
    }
    const auto [rest, second] = std::from_chars(dot + 1, end, name.token);
    if (second != std::errc() || (rest != end && *rest != '.')) {
        return std::nullopt;
    }
    name.what = std::string(rest == end ? rest : rest + 1, end);
    return name;
}

struct Newest {
    uint64_t token = 0;
    bool beats = false;
    bool released = false;
};

std::map<uint64_t, Newest> newest(ObjectStore& store) {
    std::map<uint64_t, Newest> slots;
    for (const Object& object : store.list(std::string(kFolder))) {
        const std::optional<Name> name = parse_name(object.key);
        if (!name) {
            continue;
        }
        Newest& slot = slots[name->slot];
        if (name->token > slot.token) {
            slot = {.token = name->token};
        }
        if (name->token == slot.token) {
            slot.beats = slot.beats || name->what == "beat";
            slot.released = slot.released || name->what == "released";
        }
    }
    return slots;
}

bool is_held(ObjectStore& store, const Lease& lease) {
    const auto slots = newest(store);
    const auto at = slots.find(lease.slot);
    return at != slots.end() && at->second.token == lease.token && !at->second.released;
}

Bytes bytes_of(std::string_view text) {
    return std::as_bytes(std::span(text));
}

}  // namespace

double boot_seconds() {
    std::timespec now{};
    ::clock_gettime(CLOCK_BOOTTIME, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

std::string boot_id() {
    std::string id;
    if (const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(
            std::fopen("/proc/sys/kernel/random/boot_id", "rb"), &std::fclose);
        file) {
        for (int c = std::fgetc(file.get()); c != EOF && c != '\n'; c = std::fgetc(file.get())) {
            id += static_cast<char>(c);
        }
    }
    return id;
}

Leases::Leases(ObjectStore& store, Database& database, LeaseTerms terms)
    : store_(store), database_(database), terms_(terms) {
    database_.run(
        "CREATE TABLE IF NOT EXISTS observations(lease TEXT PRIMARY KEY, beat TEXT, boot TEXT, seen REAL)");
}

std::vector<Lease> Leases::all() {
    for (int looks = 1;; ++looks) {
        try {
            return look();
        } catch (const Error& error) {
            // Listed, and gone or written anew before it was read: the holder changed in between.
            const bool changed = error.code() == ErrorCode::missing || error.code() == ErrorCode::bad_input;
            if (!changed || looks == kLooks) {
                throw;
            }
        }
    }
}

std::vector<Lease> Leases::look() {
    std::vector<Lease> leases;
    for (const auto& [slot, last] : newest(store_)) {
        Lease lease{.slot = slot,
                    .token = last.token,
                    .owner = {},
                    .kind = {},
                    .beat = {},
                    .released = last.released};
        const std::string name = name_of(slot, last.token);
        within(name, [&] {
            const json content = format::parse_strict_json(get_text(store_, name, kLongest));
            lease.owner = format::get_text(content, "owner");
            lease.kind = format::get_text(content, "kind");
        });
        if (last.beats && !last.released) {
            lease.beat = get_text(store_, name + ".beat", kLongest);
        }
        leases.push_back(std::move(lease));
    }
    return leases;
}

LeaseView Leases::judge(const Lease& lease) {
    if (lease.released) {
        return LeaseView::free;
    }
    const std::string name = fmt::format("{} {}.{}", store_.address(), lease.slot, lease.token);
    const std::string boot = boot_id();
    const double now = boot_seconds();
    LeaseView view = LeaseView::held;
    database_.transaction([&] {
        const auto rows =
            database_.query("SELECT beat, boot, seen FROM observations WHERE lease = ?", {name});
        const bool same = !rows.empty() && rows[0].text(0) == lease.beat && rows[0].text(1) == boot &&
                          rows[0].real(2) <= now;
        if (!same) {
            database_.run("INSERT OR REPLACE INTO observations VALUES(?, ?, ?, ?)",
                          {name, lease.beat, boot, now});
        } else if (now - rows[0].real(2) >= terms_.term) {
            view = LeaseView::expired;
        }
    });
    return view;
}

std::optional<Lease> Leases::take(uint64_t slot, uint64_t seen, const std::string& owner,
                                  const std::string& kind) {
    // The successor of the very lease that was judged: a token looked up only now could be the successor of
    // one that somebody took in between, and holds.
    Lease lease{.slot = slot, .token = seen + 1, .owner = owner, .kind = kind, .beat = {}};
    const std::string name = name_of(slot, lease.token);
    const std::string text = json{{"owner", owner}, {"kind", kind}}.dump();
    if (!store_.put(name, bytes_of(text), Condition::absent)) {
        return std::nullopt;
    }
    // Absent may also mean removed, by a holder who came after the one that removed it.
    if (newest(store_)[slot].token != lease.token) {
        store_.remove(name);
        return std::nullopt;
    }
    if (seen > 0) {  // what is no longer the newest is of no use to anybody
        for (const char* what : {"", ".beat", ".released"}) {
            store_.remove(name_of(slot, seen) + what);
        }
    }
    return lease;
}

void beat_lease(ObjectStore& store, const Lease& lease) {
    if (!is_held(store, lease)) {
        throw Error(ErrorCode::busy,
                    fmt::format("the lease {}.{} of {} is no longer held: it was taken over or released",
                                lease.slot, lease.token, lease.owner));
    }
    std::random_device random;
    const std::string text = fmt::format("{:08x}{:08x}", random(), random());
    store.put(name_of(lease.slot, lease.token) + ".beat", bytes_of(text), Condition::none);
}

void release_lease(ObjectStore& store, const Lease& lease) {
    if (lease.token != 0 && is_held(store, lease)) {
        store.put(name_of(lease.slot, lease.token) + ".released", bytes_of(lease.owner), Condition::none);
    }
}

}  // namespace kaiju::zoo
