// SPDX-License-Identifier: Apache-2.0
#include "gpemu/profile/database_writer.hpp"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <system_error>
#include <utility>
#include <vector>

#include "gpemu/base/file.hpp"
#include "gpemu/profile/gpu_spec.hpp"

#include "calibration_adoption.hpp"
#include "database_format.hpp"
#include "sqlite.hpp"

namespace gpemu::profile {
namespace {

namespace fs = std::filesystem;

Result<void> insert_gpu(const SqliteConnection& connection, const GpuText& text) {
  GPEMU_ASSIGN(const GpuSpec spec, parse_gpu_spec(text.toml, text.origin));
  GPEMU_TRY(connection.run("INSERT INTO gpus VALUES (?, ?)", spec.name, text.toml));
  std::vector<std::string> spellings = spec.aliases;
  spellings.push_back(spec.name);
  for (const std::string& spelling : spellings) {
    GPEMU_ASSIGN(SqliteStatement row,
                 connection.query("SELECT gpu FROM gpu_spellings WHERE spelling = ?", spelling));
    GPEMU_ASSIGN(const bool taken, row.step());
    if (taken) {
      return fail(ErrorCode::kCorruptData,
                  "{}: \"{}\" already names the GPU {}; each name and alias must be unique",
                  text.origin, spelling, row.text(0));
    }
    GPEMU_TRY(connection.run("INSERT INTO gpu_spellings VALUES (?, ?)", spelling, spec.name));
  }
  return {};
}

// Checks that the GPUs whose calibration others have are there.
Result<void> check_calibrations(std::span<const GpuText> gpus) {
  std::map<std::string, GpuSpec, std::less<>> specs;
  for (const GpuText& text : gpus) {
    GPEMU_ASSIGN(GpuSpec spec, parse_gpu_spec(text.toml, text.origin));
    specs.emplace(spec.name, std::move(spec));
  }
  const auto find = [&](std::string_view name) -> Result<GpuSpec> {
    const auto found = specs.find(name);
    if (found != specs.end()) return found->second;
    return fail(ErrorCode::kNotFound, "there is no GPU \"{}\"", name);
  };
  for (const auto& [name, spec] : specs) {
    GpuSpec checked = spec;
    GPEMU_TRY(adopt_calibrations(checked, find));
  }
  return {};
}

Result<std::int64_t> insert_pack_info(const SqliteConnection& connection, const PackInfo& info) {
  GPEMU_TRY(connection.run("INSERT INTO packs VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                           info.name, info.title, info.citation, info.url, info.licence,
                           info.method, info.framework, info.host, info.samples,
                           info.emulated ? 1 : 0));
  const std::int64_t id = connection.last_row_id();
  for (const auto& [gpu, note] : info.gpu_notes) {
    GPEMU_TRY(connection.run("INSERT INTO pack_gpu_notes VALUES (?, ?, ?)", id, gpu, note));
  }
  return id;
}

Result<void> insert_curves(const SqliteConnection& connection, std::int64_t pack,
                           const std::vector<Curve>& curves) {
  GPEMU_ASSIGN(SqliteStatement insert_curve,
               connection.query("INSERT INTO curves VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
  GPEMU_ASSIGN(SqliteStatement insert_point,
               connection.query("INSERT INTO curve_points VALUES (?, ?, ?)"));
  for (const Curve& curve : curves) {
    if (curve.points.empty()) {
      return fail(ErrorCode::kCorruptData, "the {} curve of {} on {} has no points",
                  quantity_name(curve.key.quantity), curve.key.model, curve.key.gpu);
    }
    GPEMU_TRY(insert_curve.run(curve.key.model, curve.key.gpu, curve.key.precision,
                               quantity_name(curve.key.quantity), pack, curve.measured_rows,
                               curve.mean_relative_error, curve.p90_relative_error,
                               curve.p95_relative_error, curve.max_relative_error));
    const std::int64_t id = connection.last_row_id();
    for (const CurvePoint& point : curve.points) {
      GPEMU_TRY(insert_point.run(id, point.batch, point.value));
    }
  }
  return {};
}

Result<void> insert_rest(const SqliteConnection& connection, std::int64_t id, const Pack& pack) {
  for (const MemoryLimit& limit : pack.limits) {
    GPEMU_TRY(connection.run("INSERT INTO memory_limits VALUES (?, ?, ?, ?, ?, ?)", limit.model,
                             limit.gpu, limit.precision, id, limit.largest_batch_measured,
                             limit.first_batch_out_of_memory));
  }
  for (const ModelInfo& model : pack.models) {
    GPEMU_TRY(connection.run("INSERT INTO models VALUES (?, ?, ?, ?, ?, ?)", model.name, id,
                             static_cast<std::int64_t>(model.parameters), model.input_shape[0],
                             model.input_shape[1], model.input_shape[2]));
  }
  for (const ModelRecording& recording : pack.recordings) {
    GPEMU_TRY(connection.run("INSERT INTO recordings VALUES (?, ?, ?)", recording.model, id,
                             recording.text));
  }
  return {};
}

Result<void> insert_pack(const SqliteConnection& connection, const Pack& pack) {
  const auto insert = [&]() -> Result<void> {
    GPEMU_ASSIGN(const std::int64_t id, insert_pack_info(connection, pack.info));
    GPEMU_TRY(insert_curves(connection, id, pack.curves));
    return insert_rest(connection, id, pack);
  };
  Result<void> result = insert();
  if (!result) {
    result.error().message = fmt::format("pack {}: {}", pack.info.name, result.error().message);
  }
  return result;
}

// What packs that are reviewed together must not do: name a GPU that is not there, or give a record
// that another one gives.
Result<void> check_consistency(const SqliteConnection& connection) {
  constexpr std::string_view kUnknownGpu =
      "SELECT packs.name, records.gpu FROM (SELECT pack, gpu FROM curves UNION "
      "SELECT pack, gpu FROM memory_limits) AS records JOIN packs ON packs.id = records.pack "
      "WHERE records.gpu NOT IN (SELECT name FROM gpus)";
  GPEMU_ASSIGN(SqliteStatement unknown, connection.query(kUnknownGpu));
  GPEMU_ASSIGN(const bool has_unknown, unknown.step());
  if (has_unknown) {
    return fail(ErrorCode::kCorruptData,
                "pack {} names the GPU \"{}\", for which there is no specification",
                unknown.text(0), unknown.text(1));
  }
  constexpr std::string_view kTwice =
      "SELECT what, model, gpu, precision, min(packs.name), max(packs.name) FROM "
      "(SELECT quantity AS what, model, gpu, precision, pack FROM curves UNION ALL "
      "SELECT 'memory limit', model, gpu, precision, pack FROM memory_limits) AS records "
      "JOIN packs ON packs.id = records.pack "
      "GROUP BY what, model, gpu, precision HAVING count(*) > 1";
  GPEMU_ASSIGN(SqliteStatement twice, connection.query(kTwice));
  GPEMU_ASSIGN(const bool has_twice, twice.step());
  if (has_twice) {
    return fail(ErrorCode::kCorruptData, "packs {} and {} both give {} of {} on {} at {}",
                twice.text(4), twice.text(5), twice.text(0), twice.text(1), twice.text(2),
                twice.text(3));
  }
  return {};
}

// Returns the folder's entries that `wanted` accepts, by name.
template <typename Wanted>
Result<std::vector<fs::path>> sorted_entries(const fs::path& folder, Wanted wanted) {
  GPEMU_ASSIGN(std::vector<fs::path> paths, list_folder(folder));
  std::erase_if(paths, [&wanted](const fs::path& path) { return !wanted(path); });
  return paths;
}

// Opens a user's database for writing and starts a transaction. The transaction ends without effect
// when the connection is closed before its COMMIT.
Result<SqliteConnection> begin_writing(const fs::path& path, bool create) {
  GPEMU_ASSIGN(SqliteConnection connection, SqliteConnection::open_file(path, create));
  GPEMU_TRY(connection.run_script("PRAGMA foreign_keys = 1; BEGIN IMMEDIATE"));
  GPEMU_ASSIGN(const std::int64_t changes, connection.pragma("schema_version"));
  GPEMU_ASSIGN(const std::int64_t application_id, connection.pragma("application_id"));
  if (create && changes == 0 && application_id == 0) {
    GPEMU_TRY(create_tables(connection));
  } else {
    GPEMU_TRY(check_format(connection));
  }
  return connection;
}

}  // namespace

Result<std::string> build_database_image(std::span<const GpuText> gpus,
                                         std::span<const Pack> packs) {
  GPEMU_ASSIGN(const SqliteConnection connection, SqliteConnection::open_memory());
  GPEMU_TRY(connection.run_script("BEGIN"));
  GPEMU_TRY(create_tables(connection));
  for (const GpuText& gpu : gpus) GPEMU_TRY(insert_gpu(connection, gpu));
  GPEMU_TRY(check_calibrations(gpus));
  for (const Pack& pack : packs) GPEMU_TRY(insert_pack(connection, pack));
  GPEMU_TRY(check_consistency(connection));
  GPEMU_TRY(connection.run_script("COMMIT"));
  return connection.image();
}

Result<void> compile_database(const fs::path& gpus_folder, const fs::path& packs_folder,
                              const fs::path& output) {
  GPEMU_ASSIGN(const std::vector<fs::path> gpu_files,
               sorted_entries(gpus_folder,
                              [](const fs::path& path) { return path.extension() == ".toml"; }));
  std::vector<GpuText> gpus;
  for (const fs::path& file : gpu_files) {
    GPEMU_ASSIGN(std::string toml, read_file(file));
    GPEMU_ASSIGN(const GpuSpec spec, parse_gpu_spec(toml, file.string()));
    if (spec.name != file.stem()) {
      return fail(ErrorCode::kCorruptData, "{} describes the GPU \"{}\"; name and file must agree",
                  file.string(), spec.name);
    }
    gpus.push_back({std::move(toml), file.string()});
  }
  GPEMU_ASSIGN(const std::vector<fs::path> pack_folders,
               sorted_entries(packs_folder, [](const fs::path& path) {
                 std::error_code error;
                 return fs::exists(path / "pack.toml", error);
               }));
  std::vector<Pack> packs;
  for (const fs::path& folder : pack_folders) {
    GPEMU_ASSIGN(Pack pack, load_pack(folder));
    packs.push_back(std::move(pack));
  }
  GPEMU_ASSIGN(const std::string image, build_database_image(gpus, packs));
  return write_file_atomically(output, image);
}

Result<void> add_pack(const fs::path& user_database, const Pack& pack) {
  std::error_code error;
  fs::create_directories(user_database.parent_path(), error);
  if (error) {
    return fail(ErrorCode::kIo, "cannot create the folder of {}: {}", user_database.string(),
                error.message());
  }
  GPEMU_ASSIGN(const SqliteConnection connection, begin_writing(user_database, true));
  GPEMU_TRY(connection.run("DELETE FROM packs WHERE name = ?", pack.info.name));
  GPEMU_TRY(insert_pack(connection, pack));
  return connection.run_script("COMMIT");
}

Result<void> remove_pack(const fs::path& user_database, std::string_view name) {
  const auto not_there =
      fail(ErrorCode::kNotFound, "there is no pack \"{}\" in {}", name, user_database.string());
  std::error_code error;
  if (!fs::exists(user_database, error)) return not_there;
  GPEMU_ASSIGN(const SqliteConnection connection, begin_writing(user_database, false));
  GPEMU_TRY(connection.run("DELETE FROM packs WHERE name = ?", name));
  if (connection.changed_rows() == 0) return not_there;
  return connection.run_script("COMMIT");
}

}  // namespace gpemu::profile
