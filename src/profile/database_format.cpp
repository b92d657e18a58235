// SPDX-License-Identifier: Apache-2.0
#include "database_format.hpp"

namespace gpemu::profile {
namespace {

// A pack's id orders packs by when they were added. Deleting a pack takes its rows along.
constexpr const char* kTables = R"sql(
CREATE TABLE gpus (
  name TEXT PRIMARY KEY,
  toml TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE gpu_spellings (
  spelling TEXT PRIMARY KEY COLLATE NOCASE,
  gpu      TEXT NOT NULL REFERENCES gpus (name)
) WITHOUT ROWID;

CREATE TABLE packs (
  id        INTEGER PRIMARY KEY,
  name      TEXT NOT NULL UNIQUE,
  title     TEXT NOT NULL,
  citation  TEXT NOT NULL,
  url       TEXT NOT NULL,
  licence   TEXT NOT NULL,
  method    TEXT NOT NULL,
  framework TEXT NOT NULL,
  host      TEXT NOT NULL,
  samples   INTEGER NOT NULL,
  emulated  INTEGER NOT NULL
);

CREATE TABLE pack_gpu_notes (
  pack INTEGER NOT NULL REFERENCES packs (id) ON DELETE CASCADE,
  gpu  TEXT NOT NULL,
  note TEXT NOT NULL,
  PRIMARY KEY (pack, gpu)
) WITHOUT ROWID;

CREATE TABLE models (
  name       TEXT NOT NULL COLLATE NOCASE,
  pack       INTEGER NOT NULL REFERENCES packs (id) ON DELETE CASCADE,
  parameters INTEGER NOT NULL,
  channels   INTEGER NOT NULL,
  height     INTEGER NOT NULL,
  width      INTEGER NOT NULL,
  PRIMARY KEY (name, pack)
) WITHOUT ROWID;

CREATE TABLE recordings (
  model TEXT NOT NULL COLLATE NOCASE,
  pack  INTEGER NOT NULL REFERENCES packs (id) ON DELETE CASCADE,
  text  TEXT NOT NULL,
  PRIMARY KEY (model, pack)
) WITHOUT ROWID;

CREATE TABLE curves (
  id                  INTEGER PRIMARY KEY,
  model               TEXT NOT NULL,
  gpu                 TEXT NOT NULL,
  precision           TEXT NOT NULL,
  quantity            TEXT NOT NULL,
  pack                INTEGER NOT NULL REFERENCES packs (id) ON DELETE CASCADE,
  measured_rows       INTEGER NOT NULL,
  mean_relative_error REAL NOT NULL,
  p90_relative_error  REAL NOT NULL,
  p95_relative_error  REAL NOT NULL,
  max_relative_error  REAL NOT NULL,
  UNIQUE (model, gpu, precision, quantity, pack)
);

CREATE TABLE curve_points (
  curve INTEGER NOT NULL REFERENCES curves (id) ON DELETE CASCADE,
  batch INTEGER NOT NULL,
  value REAL NOT NULL,
  PRIMARY KEY (curve, batch)
) WITHOUT ROWID;

CREATE TABLE memory_limits (
  model                     TEXT NOT NULL,
  gpu                       TEXT NOT NULL,
  precision                 TEXT NOT NULL,
  pack                      INTEGER NOT NULL REFERENCES packs (id) ON DELETE CASCADE,
  largest_batch_measured    INTEGER NOT NULL,
  first_batch_out_of_memory INTEGER,
  PRIMARY KEY (model, gpu, precision, pack)
) WITHOUT ROWID;
)sql";

}  // namespace

Result<void> create_tables(const SqliteConnection& connection) {
  GPEMU_TRY(connection.run_script(kTables));
  return connection.run_script(fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {};",
                                           kApplicationId, kFormatVersion)
                                   .c_str());
}

Result<void> check_format(const SqliteConnection& connection) {
  GPEMU_ASSIGN(const std::int64_t application_id, connection.pragma("application_id"));
  GPEMU_ASSIGN(const std::int64_t version, connection.pragma("user_version"));
  if (application_id != kApplicationId) {
    return fail(ErrorCode::kIncompatible,
                "{} is not a gpemu profile database: its application id is {:#x} instead of {:#x}",
                connection.name(), application_id, kApplicationId);
  }
  if (version != kFormatVersion) {
    return fail(ErrorCode::kIncompatible,
                "{} has profile database format {}, this gpemu reads format {}; use the gpemu that "
                "wrote it, or move the file away and add its packs again",
                connection.name(), version, kFormatVersion);
  }
  return {};
}

}  // namespace gpemu::profile
