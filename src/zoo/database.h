// A thin wrapper over SQLite: errors become Error(io), statements are bound and read by type.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

struct sqlite3;

namespace kaiju::zoo {

using SqlValue = std::variant<std::nullptr_t, int64_t, double, std::string>;

/// One row of an answer.
class SqlRow {
  public:
    explicit SqlRow(std::vector<SqlValue> values) : values_(std::move(values)) {}
    [[nodiscard]] std::string text(size_t column) const;
    [[nodiscard]] int64_t integer(size_t column) const;
    [[nodiscard]] double real(size_t column) const;

  private:
    std::vector<SqlValue> values_;
};

/// One database file, in WAL mode, waiting for other writers for up to half a minute.
class Database {
  public:
    explicit Database(const std::filesystem::path& path);
    ~Database();
    Database(const Database&) = delete;
    Database& operator=(const Database&) = delete;

    void run(const std::string& sql, const std::vector<SqlValue>& values = {});
    [[nodiscard]] std::vector<SqlRow> query(const std::string& sql, const std::vector<SqlValue>& values = {});
    [[nodiscard]] int64_t last_id() const;

    /// Runs `body` as one transaction: all of it or, where it throws, nothing.
    void transaction(const std::function<void()>& body);

  private:
    std::filesystem::path path_;
    sqlite3* handle_ = nullptr;
};

}  // namespace kaiju::zoo
