#include "zoo/database.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <chrono>
#include <thread>

#include "base/error.h"

namespace kaiju::zoo {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPatience{30'000};
constexpr std::chrono::milliseconds kPause{5};

using Statement = std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)>;

[[noreturn]] void fail(const std::filesystem::path& path, sqlite3* handle) {
    const int code = handle == nullptr ? SQLITE_NOMEM : sqlite3_errcode(handle);
    throw Error(
        code == SQLITE_CORRUPT || code == SQLITE_NOTADB ? ErrorCode::bad_input : ErrorCode::io,
        fmt::format("{}: {}{}", path.string(), handle == nullptr ? "out of memory" : sqlite3_errmsg(handle),
                    code == SQLITE_CORRUPT || code == SQLITE_NOTADB
                        ? ": move it away; kaiju zoo rebuild makes it again from the store"
                        : ""));
}

void bind(sqlite3_stmt* statement, int index, const SqlValue& value) {
    if (const auto* integer = std::get_if<int64_t>(&value)) {
        sqlite3_bind_int64(statement, index, *integer);
    } else if (const auto* real = std::get_if<double>(&value)) {
        sqlite3_bind_double(statement, index, *real);
    } else if (const auto* text = std::get_if<std::string>(&value)) {
        sqlite3_bind_text(statement, index, text->data(), static_cast<int>(text->size()), SQLITE_TRANSIENT);
    } else {
        sqlite3_bind_null(statement, index);
    }
}

SqlValue column(sqlite3_stmt* statement, int index) {
    switch (sqlite3_column_type(statement, index)) {
        case SQLITE_INTEGER:
            return sqlite3_column_int64(statement, index);
        case SQLITE_FLOAT:
            return sqlite3_column_double(statement, index);
        case SQLITE_NULL:
            return nullptr;
        default:
            return std::string(reinterpret_cast<const char*>(sqlite3_column_text(statement, index)),
                               static_cast<size_t>(sqlite3_column_bytes(statement, index)));
    }
}

}  // namespace

std::string SqlRow::text(size_t column) const {
    const auto* value = std::get_if<std::string>(&values_.at(column));
    return value == nullptr ? std::string() : *value;
}

int64_t SqlRow::integer(size_t column) const {
    const auto* value = std::get_if<int64_t>(&values_.at(column));
    return value == nullptr ? 0 : *value;
}

double SqlRow::real(size_t column) const {
    if (const auto* value = std::get_if<double>(&values_.at(column))) {
        return *value;
    }
    return static_cast<double>(integer(column));
}

Database::Database(const std::filesystem::path& path) : path_(path) {
    if (sqlite3_open(path.c_str(), &handle_) != SQLITE_OK) {
        const std::string reason = handle_ == nullptr ? "out of memory" : sqlite3_errmsg(handle_);
        sqlite3_close(handle_);
        throw Error(ErrorCode::io, fmt::format("{}: {}", path.string(), reason));
    }
    try {
        sqlite3_busy_timeout(handle_, static_cast<int>(kPatience.count()));
        (void)query("PRAGMA journal_mode=WAL");
        run("PRAGMA synchronous=FULL");
        run("PRAGMA foreign_keys=ON");
    } catch (...) {
        sqlite3_close(handle_);
        throw;
    }
}

Database::~Database() {
    sqlite3_close(handle_);
}

std::vector<SqlRow> Database::query(const std::string& sql, const std::vector<SqlValue>& values) {
    sqlite3_stmt* prepared = nullptr;
    if (sqlite3_prepare_v2(handle_, sql.c_str(), static_cast<int>(sql.size()), &prepared, nullptr) !=
        SQLITE_OK) {
        fail(path_, handle_);
    }
    const Statement statement(prepared, &sqlite3_finalize);
    for (size_t i = 0; i < values.size(); ++i) {
        bind(statement.get(), static_cast<int>(i) + 1, values[i]);
    }
    std::vector<SqlRow> rows;
    const auto deadline = Clock::now() + kPatience;
    for (;;) {
        const int code = sqlite3_step(statement.get());
        if (code == SQLITE_DONE) {
            return rows;
        }
        // SQLite does not wait where two that wait could wait for each other (both want to turn a new file
        // to WAL mode, say). Outside a transaction a statement that was refused has done nothing yet.
        if (code == SQLITE_BUSY && rows.empty() && sqlite3_get_autocommit(handle_) != 0 &&
            Clock::now() < deadline) {
            sqlite3_reset(statement.get());
            std::this_thread::sleep_for(kPause);
            continue;
        }
        if (code != SQLITE_ROW) {
            fail(path_, handle_);
        }
        std::vector<SqlValue> row;
        const int columns = sqlite3_column_count(statement.get());
        row.reserve(static_cast<size_t>(columns));
        for (int i = 0; i < columns; ++i) {
            row.push_back(column(statement.get(), i));
        }
        rows.emplace_back(std::move(row));
    }
}

void Database::run(const std::string& sql, const std::vector<SqlValue>& values) {
    (void)query(sql, values);
}

int64_t Database::last_id() const {
    return sqlite3_last_insert_rowid(handle_);
}

void Database::transaction(const std::function<void()>& body) {
    run("BEGIN IMMEDIATE");
    try {
        body();
        run("COMMIT");
    } catch (...) {
        sqlite3_exec(handle_, "ROLLBACK", nullptr, nullptr, nullptr);
        throw;
    }
}

}  // namespace kaiju::zoo
