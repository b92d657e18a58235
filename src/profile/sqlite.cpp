// SPDX-License-Identifier: Apache-2.0
#include "sqlite.hpp"

#include <cstring>
#include <utility>

namespace gpemu::profile {
namespace {

// Writers hold a lock for milliseconds: who waits longer than this meets one that hangs.
constexpr int kBusyTimeoutMs = 500;

std::unexpected<Error> sqlite_failure(sqlite3* database, const std::string& name) {
  const char* reason = sqlite3_errmsg(database);
  switch (sqlite3_errcode(database)) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return fail(ErrorCode::kUnavailable,
                  "{} is in use by another process ({}); try again when it is done", name, reason);
    case SQLITE_NOTADB:
      return fail(ErrorCode::kIncompatible, "{} is not a gpemu profile database: {}", name, reason);
    case SQLITE_CORRUPT:
      return fail(ErrorCode::kCorruptData, "{} is damaged: {}", name, reason);
    case SQLITE_CONSTRAINT:
      return fail(ErrorCode::kCorruptData, "{} cannot hold this: {}", name, reason);
    case SQLITE_FULL:
      return fail(ErrorCode::kResourceLimit, "cannot write {}: {}", name, reason);
    default:
      return fail(ErrorCode::kIo, "cannot use {}: {}", name, reason);
  }
}

std::string file_uri(const std::filesystem::path& path) {
  std::string uri = "file:";
  for (const char c : path.string()) {
    if (c == '%' || c == '?' || c == '#') {
      uri += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    } else {
      uri += c;
    }
  }
  return uri;
}

}  // namespace

Result<bool> SqliteStatement::step() {
  const int status = sqlite3_step(statement_.get());
  if (status == SQLITE_ROW) return true;
  if (status == SQLITE_DONE) return false;
  return sqlite_failure(sqlite3_db_handle(statement_.get()), *database_name_);
}

std::string SqliteStatement::text(int column) const {
  // The text must be asked for before its size: that is what converts a value of another type.
  const unsigned char* data = sqlite3_column_text(statement_.get(), column);
  const int size = sqlite3_column_bytes(statement_.get(), column);
  return {data, data + size};
}

std::int64_t SqliteStatement::integer(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

double SqliteStatement::real(int column) const {
  return sqlite3_column_double(statement_.get(), column);
}

bool SqliteStatement::is_null(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
}

void SqliteStatement::bind_one(int index, std::string_view value) {
  const char* data = value.data() == nullptr ? "" : value.data();  // A null pointer would be NULL.
  GPEMU_CHECK(sqlite3_bind_text64(statement_.get(), index, data, value.size(), SQLITE_STATIC,
                                  SQLITE_UTF8) == SQLITE_OK,
              "SQL parameter");
}

void SqliteStatement::bind_one(int index, double value) {
  GPEMU_CHECK(sqlite3_bind_double(statement_.get(), index, value) == SQLITE_OK, "SQL parameter");
}

void SqliteStatement::bind_one(int index, const std::optional<int>& value) {
  if (value) {
    bind_integer(index, *value);
  } else {
    GPEMU_CHECK(sqlite3_bind_null(statement_.get(), index) == SQLITE_OK, "SQL parameter");
  }
}

void SqliteStatement::bind_integer(int index, std::int64_t value) {
  GPEMU_CHECK(sqlite3_bind_int64(statement_.get(), index, value) == SQLITE_OK, "SQL parameter");
}

Result<SqliteConnection> SqliteConnection::open_immutable(const std::filesystem::path& path) {
  return open(file_uri(path) + "?immutable=1", SQLITE_OPEN_READONLY, path.string());
}

Result<SqliteConnection> SqliteConnection::open_file(const std::filesystem::path& path,
                                                     bool create) {
  const int flags = SQLITE_OPEN_READWRITE | (create ? SQLITE_OPEN_CREATE : 0);
  return open(file_uri(path), flags, path.string());
}

Result<SqliteConnection> SqliteConnection::open_memory() {
  return open(":memory:", SQLITE_OPEN_READWRITE, "the database in memory");
}

Result<SqliteConnection> SqliteConnection::open_image(std::string_view image) {
  GPEMU_ASSIGN(SqliteConnection connection, open_memory());
  auto* copy = static_cast<unsigned char*>(sqlite3_malloc64(image.size()));
  GPEMU_CHECK(copy != nullptr || image.empty(), "out of memory");
  std::memcpy(copy, image.data(), image.size());
  const int status = sqlite3_deserialize(
      connection.database_.get(), "main", copy, static_cast<sqlite3_int64>(image.size()),
      static_cast<sqlite3_int64>(image.size()),
      SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_READONLY);
  if (status != SQLITE_OK) return sqlite_failure(connection.database_.get(), connection.name());
  return connection;
}

Result<SqliteConnection> SqliteConnection::open(const std::string& uri, int flags,
                                                std::string name) {
  sqlite3* database = nullptr;
  const int status = sqlite3_open_v2(uri.c_str(), &database,
                                     flags | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, nullptr);
  SqliteConnection connection(database, std::move(name));
  if (status != SQLITE_OK) return sqlite_failure(database, connection.name());
  sqlite3_busy_timeout(database, kBusyTimeoutMs);
  return connection;
}

Result<SqliteStatement> SqliteConnection::prepare(std::string_view sql) const {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(database_.get(), sql.data(), static_cast<int>(sql.size()), &statement,
                         nullptr) != SQLITE_OK) {
    return sqlite_failure(database_.get(), *name_);
  }
  return SqliteStatement(statement, name_.get());
}

Result<void> SqliteConnection::run_script(const char* sql) const {
  if (sqlite3_exec(database_.get(), sql, nullptr, nullptr, nullptr) != SQLITE_OK) {
    return sqlite_failure(database_.get(), *name_);
  }
  return {};
}

Result<std::int64_t> SqliteConnection::pragma(std::string_view name) const {
  GPEMU_ASSIGN(SqliteStatement statement, query(fmt::format("PRAGMA {}", name)));
  GPEMU_TRY(statement.step());
  return statement.integer(0);
}

Result<std::string> SqliteConnection::image() const {
  sqlite3_int64 size = 0;
  const std::unique_ptr<unsigned char, decltype(&sqlite3_free)> data(
      sqlite3_serialize(database_.get(), "main", &size, 0), &sqlite3_free);
  if (data == nullptr) return sqlite_failure(database_.get(), *name_);
  return std::string(data.get(), data.get() + size);
}

}  // namespace gpemu::profile
