#include "zoo/state.h"

#include <fmt/format.h>

#include <chrono>

#include "base/error.h"

namespace kaiju::zoo {

namespace {

constexpr int64_t kVersion = 1;
constexpr const char* kColumns =
    "id, name, model, kind, key, number, state, verdict, step, executor, handle, folder, restarts, started, "
    "ended, "
    "seconds, weights";

std::filesystem::path made(const std::filesystem::path& folder) {
    std::filesystem::create_directories(folder / "jobs");
    return folder / "state.db";
}

Attempt attempt_from(const SqlRow& row) {
    return {.id = row.integer(0),
            .name = row.text(1),
            .model = row.text(2),
            .kind = row.text(3),
            .key = row.text(4),
            .number = static_cast<uint64_t>(row.integer(5)),
            .state = row.text(6),
            .verdict = row.text(7),
            .step = row.text(8),
            .executor = row.text(9),
            .handle = row.text(10),
            .folder = row.text(11),
            .restarts = row.integer(12),
            .started = row.real(13),
            .ended = row.real(14),
            .seconds = row.real(15),
            .weights = row.real(16)};
}

std::vector<Attempt> attempts_from(const std::vector<SqlRow>& rows) {
    std::vector<Attempt> all;
    all.reserve(rows.size());
    for (const SqlRow& row : rows) {
        all.push_back(attempt_from(row));
    }
    return all;
}

std::vector<SqlValue> values_of(const Attempt& a) {
    return {a.name,   a.model,    a.kind,    a.key,      static_cast<int64_t>(a.number),
            a.state,  a.verdict,  a.step,    a.executor, a.handle,
            a.folder, a.restarts, a.started, a.ended,    a.seconds,
            a.weights};
}

}  // namespace

double wall_seconds() {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

State::State(const std::filesystem::path& folder) : folder_(folder), database_(made(folder)) {
    const int64_t version = database_.query("PRAGMA user_version").at(0).integer(0);
    if (version > kVersion) {
        throw Error(ErrorCode::bad_input,
                    fmt::format("{}/state.db: of a newer version ({}) than this program's ({})",
                                folder.string(), version, kVersion));
    }
    if (version == kVersion) {
        return;
    }
    database_.transaction([this] {
        database_.run(
            "CREATE TABLE IF NOT EXISTS attempts(id INTEGER PRIMARY KEY, name TEXT UNIQUE, model TEXT, kind "
            "TEXT, key "
            "TEXT, number INTEGER, state TEXT, verdict TEXT, step TEXT, executor TEXT, handle TEXT, folder "
            "TEXT, "
            "restarts INTEGER, started REAL, ended REAL, seconds REAL, weights REAL)");
        database_.run("CREATE INDEX IF NOT EXISTS by_model ON attempts(model)");
        database_.run(
            "CREATE TABLE IF NOT EXISTS steps(attempt INTEGER, step TEXT, seconds REAL, code INTEGER, "
            "PRIMARY "
            "KEY(attempt, step))");
        database_.run("CREATE TABLE IF NOT EXISTS holds(model TEXT PRIMARY KEY, reason TEXT)");
        database_.run(
            "CREATE TABLE IF NOT EXISTS notes(id INTEGER PRIMARY KEY, at REAL, model TEXT, text TEXT)");
        database_.run(fmt::format("PRAGMA user_version = {}", kVersion));
    });
}

std::vector<Attempt> State::attempts() {
    return attempts_from(database_.query(fmt::format("SELECT {} FROM attempts ORDER BY id", kColumns)));
}

std::vector<Attempt> State::attempts_of(const std::string& model) {
    return attempts_from(database_.query(
        fmt::format("SELECT {} FROM attempts WHERE model = ? ORDER BY id", kColumns), {model}));
}

std::vector<Attempt> State::running() {
    return attempts_from(database_.query(
        fmt::format("SELECT {} FROM attempts WHERE state = 'running' ORDER BY id", kColumns)));
}

int64_t State::add(const Attempt& attempt) {
    database_.run(
        "INSERT INTO attempts(name, model, kind, key, number, state, verdict, step, executor, handle, "
        "folder, "
        "restarts, started, ended, seconds, weights) VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
        values_of(attempt));
    return database_.last_id();
}

void State::update(const Attempt& attempt) {
    std::vector<SqlValue> values = values_of(attempt);
    values.emplace_back(attempt.id);
    database_.run(
        "UPDATE attempts SET name=?, model=?, kind=?, key=?, number=?, state=?, verdict=?, step=?, "
        "executor=?, "
        "handle=?, folder=?, restarts=?, started=?, ended=?, seconds=?, weights=? WHERE id=?",
        values);
}

void State::remove(int64_t id) {
    database_.run("DELETE FROM attempts WHERE id = ?", {id});
}

void State::forget_all() {
    database_.run("DELETE FROM attempts");
    database_.run("DELETE FROM steps");
}

void State::set_step(int64_t attempt, const std::string& step, double seconds, int code) {
    database_.run("INSERT OR REPLACE INTO steps VALUES(?, ?, ?, ?)",
                  {attempt, step, seconds, static_cast<int64_t>(code)});
}

std::map<std::string, double> State::steps(int64_t attempt) {
    std::map<std::string, double> all;
    for (const SqlRow& row :
         database_.query("SELECT step, seconds FROM steps WHERE attempt = ?", {attempt})) {
        all[row.text(0)] = row.real(1);
    }
    return all;
}

std::map<std::string, std::string> State::holds() {
    std::map<std::string, std::string> all;
    for (const SqlRow& row : database_.query("SELECT model, reason FROM holds")) {
        all[row.text(0)] = row.text(1);
    }
    return all;
}

void State::hold(const std::string& model, const std::string& reason) {
    database_.transaction([&] {
        database_.run("INSERT OR REPLACE INTO holds VALUES(?, ?)", {model, reason});
        note(model, "on hold: " + reason);
    });
}

void State::unhold(const std::string& model) {
    database_.transaction([&] {
        database_.run("DELETE FROM holds WHERE model = ?", {model});
        note(model, "no longer on hold");
    });
}

void State::note(const std::string& model, const std::string& text) {
    database_.run("INSERT INTO notes(at, model, text) VALUES(?, ?, ?)", {wall_seconds(), model, text});
}

std::vector<SqlRow> State::notes(int64_t most) {
    return database_.query(
        "SELECT at, model, text FROM (SELECT * FROM notes ORDER BY id DESC LIMIT ?) ORDER BY id", {most});
}

std::optional<double> State::measured_rate() {
    const auto rows = database_.query(
        "SELECT SUM(weights), SUM(steps.seconds) FROM attempts JOIN steps ON steps.attempt = attempts.id "
        "WHERE weights "
        "> 0 AND steps.step = 'encode' AND steps.seconds > 0");
    const double seconds = rows.at(0).real(1);
    return seconds > 0 ? std::optional(rows[0].real(0) / seconds) : std::nullopt;
}

}  // namespace kaiju::zoo
