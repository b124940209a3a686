// What the zoo remembers: attempts, their steps, verdicts and holds, in one SQLite file (WAL). Every change
// of state is one transaction; the file can be made again from the store (rebuild.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "zoo/database.h"

namespace kaiju::zoo {

/// One attempt to encode or to feed a model.
struct Attempt {
    int64_t id = 0;
    std::string name;  ///< of the job: unique, names its folder
    std::string model;
    std::string kind;  ///< "encode" or "feed"
    std::string key;   ///< of the knot; empty for feeds
    uint64_t number = 1;
    std::string state;    ///< "running", "done", "failed", "cancelled"
    std::string verdict;  ///< why it failed
    std::string step;     ///< where it is, or where it failed
    std::string executor;
    std::string handle;  ///< what the executor calls it: a process, a list of job ids
    std::string folder;
    int64_t restarts = 0;
    double started = 0;  ///< seconds since 1970, for people
    double ended = 0;
    double seconds = 0;  ///< of work
    double weights = 0;  ///< encoded, where it is known
};

class State {
  public:
    /// Opens or makes FOLDER/state.db. Throws bad_input for a file of another version.
    explicit State(const std::filesystem::path& folder);

    [[nodiscard]] Database& database() { return database_; }
    [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }

    [[nodiscard]] std::vector<Attempt> attempts();
    [[nodiscard]] std::vector<Attempt> attempts_of(const std::string& model);
    [[nodiscard]] std::vector<Attempt> running();
    int64_t add(const Attempt& attempt);
    void update(const Attempt& attempt);
    void remove(int64_t id);
    void forget_all();

    /// Steps of an attempt and their seconds, as the markers in its folder say.
    void set_step(int64_t attempt, const std::string& step, double seconds, int code);
    [[nodiscard]] std::map<std::string, double> steps(int64_t attempt);

    /// Models on hold by command, with the reason.
    [[nodiscard]] std::map<std::string, std::string> holds();
    void hold(const std::string& model, const std::string& reason);
    void unhold(const std::string& model);

    void note(const std::string& model, const std::string& text);
    /// The newest notes, oldest first: time, model, text.
    [[nodiscard]] std::vector<SqlRow> notes(int64_t most);

    /// Mean weights per second of finished encodes; nothing where none was measured.
    [[nodiscard]] std::optional<double> measured_rate();

  private:
    std::filesystem::path folder_;
    Database database_;
};

/// Seconds since 1970.
[[nodiscard]] double wall_seconds();

}  // namespace kaiju::zoo
