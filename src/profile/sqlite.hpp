// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <sqlite3.h>

#include "gpemu/base/error.hpp"

namespace gpemu::profile {

/// A prepared SQL statement. Texts bound to it are not copied: they must outlive its last step.
/// Must not outlive its connection.
class SqliteStatement {
 public:
  /// Makes the statement ready to run (again) with these parameters.
  template <typename... Args>
  void bind(const Args&... args) {
    sqlite3_reset(statement_.get());
    [[maybe_unused]] int index = 0;
    (bind_one(++index, args), ...);
  }

  /// Moves to the next row; returns whether there is one.
  [[nodiscard]] Result<bool> step();

  /// Runs a statement that yields no rows with these parameters.
  template <typename... Args>
  [[nodiscard]] Result<void> run(const Args&... args) {
    bind(args...);
    GPEMU_TRY(step());
    return {};
  }

  /// Columns of the current row, from 0. Text is valid until the next step.
  [[nodiscard]] std::string text(int column) const;
  [[nodiscard]] std::int64_t integer(int column) const;
  [[nodiscard]] double real(int column) const;
  [[nodiscard]] bool is_null(int column) const;

 private:
  friend class SqliteConnection;
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  SqliteStatement(sqlite3_stmt* statement, const std::string* database_name)
      : statement_(statement), database_name_(database_name) {}

  void bind_one(int index, std::string_view value);
  void bind_one(int index, double value);
  void bind_one(int index, std::integral auto value) {
    bind_integer(index, static_cast<std::int64_t>(value));
  }
  void bind_one(int index, const std::optional<int>& value);
  void bind_integer(int index, std::int64_t value);

  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  const std::string* database_name_;
};

/// An open SQLite database. Thread safety: none; one thread at a time.
class SqliteConnection {
 public:
  /// Opens a file that nobody changes in place: takes no lock and looks for no journal.
  [[nodiscard]] static Result<SqliteConnection> open_immutable(const std::filesystem::path& path);

  /// Opens a file for writing, without creating it unless `create`; where it is write-protected,
  /// for reading only.
  [[nodiscard]] static Result<SqliteConnection> open_file(const std::filesystem::path& path,
                                                          bool create);

  [[nodiscard]] static Result<SqliteConnection> open_memory();

  /// Opens the content of a database file, which is copied.
  [[nodiscard]] static Result<SqliteConnection> open_image(std::string_view image);

  /// Returns a statement with its parameters bound; see SqliteStatement for their lifetime.
  template <typename... Args>
  [[nodiscard]] Result<SqliteStatement> query(std::string_view sql, const Args&... args) const {
    GPEMU_ASSIGN(SqliteStatement statement, prepare(sql));
    statement.bind(args...);
    return statement;
  }

  /// Runs one statement that yields no rows.
  template <typename... Args>
  [[nodiscard]] Result<void> run(std::string_view sql, const Args&... args) const {
    GPEMU_ASSIGN(SqliteStatement statement, prepare(sql));
    return statement.run(args...);
  }

  /// Runs several statements without parameters, separated by semicolons.
  [[nodiscard]] Result<void> run_script(const char* sql) const;

  /// Returns the number that "PRAGMA <name>" yields.
  [[nodiscard]] Result<std::int64_t> pragma(std::string_view name) const;

  /// Returns the content that a file of this database would have.
  [[nodiscard]] Result<std::string> image() const;

  /// Returns the integer primary key of the row that was inserted last.
  [[nodiscard]] std::int64_t last_row_id() const {
    return sqlite3_last_insert_rowid(database_.get());
  }

  /// Returns the number of rows that the last statement inserted, changed or deleted.
  [[nodiscard]] int changed_rows() const { return sqlite3_changes(database_.get()); }

  /// Returns the file's path, or what stands for it in messages.
  [[nodiscard]] const std::string& name() const { return *name_; }

 private:
  struct Close {
    void operator()(sqlite3* database) const { sqlite3_close(database); }
  };
  SqliteConnection(sqlite3* database, std::string name)
      : database_(database), name_(std::make_unique<const std::string>(std::move(name))) {}

  [[nodiscard]] static Result<SqliteConnection> open(const std::string& uri, int flags,
                                                     std::string name);
  [[nodiscard]] Result<SqliteStatement> prepare(std::string_view sql) const;

  std::unique_ptr<sqlite3, Close> database_;
  std::unique_ptr<const std::string> name_;  // On the heap: statements point to it.
};

}  // namespace gpemu::profile
