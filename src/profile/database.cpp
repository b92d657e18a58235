// SPDX-License-Identifier: Apache-2.0
#include "gpemu/profile/database.hpp"

#include <cstdlib>
#include <dlfcn.h>
#include <set>
#include <system_error>
#include <utility>

#include "database_format.hpp"
#include "nearest_names.hpp"
#include "sqlite.hpp"

namespace gpemu::profile {
namespace {

namespace fs = std::filesystem;

struct Source {
  SqliteConnection connection;
  bool from_user = false;
};

// Any address in this library tells which file it was loaded from.
const char kAddressHere = 0;

// The files that this code may run in, resolved: the shared library, then the program.
std::vector<fs::path> own_files() {
  std::vector<fs::path> files;
  std::error_code error;
  Dl_info info{};
  if (::dladdr(&kAddressHere, &info) != 0 && info.dli_fname != nullptr) {
    files.push_back(fs::canonical(info.dli_fname, error));
  }
  files.push_back(fs::canonical("/proc/self/exe", error));
  std::erase_if(files, [](const fs::path& file) { return file.empty(); });
  return files;
}

fs::path installed_path() {
  if (const char* path = std::getenv("GPEMU_PROFILES"); path != nullptr && *path != '\0') {
    return path;
  }
  const fs::path below = fs::path("share") / "gpemu" / "profiles.db";
  const std::vector<fs::path> files = own_files();
  for (const fs::path& file : files) {
    for (fs::path folder = file.parent_path();; folder = folder.parent_path()) {
      std::error_code error;
      if (fs::exists(folder / below, error)) return folder / below;
      if (folder == folder.parent_path()) break;
    }
  }
  // Nothing there: the message names the place where an installation has it.
  return files.empty() ? below : files.back().parent_path().parent_path() / below;
}

fs::path user_path() {
  const fs::path below = fs::path("gpemu") / "profiles.db";
  // The XDG Base Directory Specification: a relative path is to be ignored.
  const char* data_home = std::getenv("XDG_DATA_HOME");
  if (data_home != nullptr && *data_home == '/') return data_home / below;
  const char* home = std::getenv("HOME");
  if (home != nullptr && *home == '/') return fs::path(home) / ".local" / "share" / below;
  return {};
}

Result<Source> open_installed(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error)) {
    return fail(ErrorCode::kNotFound,
                "there is no profile database at {}; install gpemu, build its target "
                "gpemu_profiles, or set GPEMU_PROFILES to a profiles.db",
                path.string());
  }
  GPEMU_ASSIGN(SqliteConnection connection, SqliteConnection::open_immutable(path));
  GPEMU_TRY(check_format(connection));
  return Source{std::move(connection), false};
}

Result<Source> open_user(const fs::path& path) {
  GPEMU_ASSIGN(SqliteConnection connection, SqliteConnection::open_file(path, false));
  GPEMU_TRY(connection.run_script("PRAGMA query_only = 1"));
  GPEMU_TRY(check_format(connection));
  return Source{std::move(connection), true};
}

// Calls visit(statement) for each row of a query.
template <typename Visit, typename... Args>
Result<void> for_each_row(const SqliteConnection& connection, std::string_view sql, Visit visit,
                          const Args&... args) {
  GPEMU_ASSIGN(SqliteStatement statement, connection.query(sql, args...));
  while (true) {
    GPEMU_ASSIGN(const bool found, statement.step());
    if (!found) return {};
    visit(statement);
  }
}

// Returns the first column of all rows of all sources, without duplicates and in order.
template <typename... Args>
Result<std::vector<std::string>> distinct_texts(const std::vector<Source>& sources,
                                                std::string_view sql, const Args&... args) {
  std::set<std::string> texts;
  for (const Source& source : sources) {
    GPEMU_TRY(for_each_row(
        source.connection, sql, [&](const SqliteStatement& row) { texts.insert(row.text(0)); },
        args...));
  }
  return std::vector<std::string>(texts.begin(), texts.end());
}

Result<Quantity> quantity_from_name(const SqliteConnection& connection, std::string_view name) {
  for (std::size_t i = 0; i < kQuantityNames.size(); ++i) {
    if (kQuantityNames[i] == name) return static_cast<Quantity>(i);
  }
  return fail(ErrorCode::kCorruptData, "{} holds a curve of the unknown quantity \"{}\"",
              connection.name(), name);
}

// Columns: see kCurveColumns.
constexpr std::string_view kCurveColumns =
    "curves.id, model, gpu, precision, quantity, packs.name, measured_rows, max_relative_error, "
    "p90_relative_error FROM curves JOIN packs ON packs.id = curves.pack";

Result<Curve> read_curve(const SqliteConnection& connection, const SqliteStatement& row) {
  Curve curve;
  GPEMU_ASSIGN(const Quantity quantity, quantity_from_name(connection, row.text(4)));
  curve.key = {row.text(1), row.text(2), row.text(3), quantity};
  curve.pack = row.text(5);
  curve.measured_rows = static_cast<int>(row.integer(6));
  curve.max_relative_error = row.real(7);
  curve.p90_relative_error = row.real(8);
  GPEMU_TRY(for_each_row(
      connection, "SELECT batch, value FROM curve_points WHERE curve = ? ORDER BY batch",
      [&](const SqliteStatement& point) {
        curve.points.push_back({static_cast<int>(point.integer(0)), point.real(1)});
      },
      row.integer(0)));
  return curve;
}

constexpr std::string_view kLimitColumns =
    "model, gpu, precision, packs.name, largest_batch_measured, first_batch_out_of_memory "
    "FROM memory_limits JOIN packs ON packs.id = memory_limits.pack";

MemoryLimit read_limit(const SqliteStatement& row) {
  MemoryLimit limit{
      row.text(0), row.text(1), row.text(2), row.text(3), static_cast<int>(row.integer(4)),
      std::nullopt};
  if (!row.is_null(5)) limit.first_batch_out_of_memory = static_cast<int>(row.integer(5));
  return limit;
}

constexpr std::string_view kModelColumns =
    "models.name, parameters, channels, height, width, packs.name "
    "FROM models JOIN packs ON packs.id = models.pack";

ModelInfo read_model(const SqliteStatement& row) {
  return {row.text(0),
          static_cast<std::uint64_t>(row.integer(1)),
          {static_cast<int>(row.integer(2)), static_cast<int>(row.integer(3)),
           static_cast<int>(row.integer(4))},
          row.text(5)};
}

constexpr std::string_view kPackColumns =
    "name, title, citation, url, licence, method, framework, host, samples FROM packs";

PackInfo read_pack_info(const SqliteStatement& row) {
  return {row.text(0), row.text(1), row.text(2),
          row.text(3), row.text(4), row.text(5),
          row.text(6), row.text(7), static_cast<int>(row.integer(8))};
}

Result<Pack> read_pack(const SqliteConnection& connection, PackInfo info) {
  Pack pack;
  pack.info = std::move(info);
  GPEMU_ASSIGN(SqliteStatement row,
               connection.query(
                   fmt::format("SELECT {} WHERE packs.name = ? ORDER BY curves.id", kCurveColumns),
                   pack.info.name));
  while (true) {
    GPEMU_ASSIGN(const bool found, row.step());
    if (!found) break;
    GPEMU_ASSIGN(Curve curve, read_curve(connection, row));
    pack.curves.push_back(std::move(curve));
  }
  GPEMU_TRY(for_each_row(
      connection, fmt::format("SELECT {} WHERE packs.name = ?", kLimitColumns),
      [&](const SqliteStatement& limit) { pack.limits.push_back(read_limit(limit)); },
      pack.info.name));
  GPEMU_TRY(for_each_row(
      connection, fmt::format("SELECT {} WHERE packs.name = ?", kModelColumns),
      [&](const SqliteStatement& model) { pack.models.push_back(read_model(model)); },
      pack.info.name));
  return pack;
}

}  // namespace

/// The databases, the one whose records win first.
struct Database::State {
  std::vector<Source> sources;
};

Database::Database(std::unique_ptr<State> state) : state_(std::move(state)) {}
Database::Database(Database&&) noexcept = default;
Database& Database::operator=(Database&&) noexcept = default;
Database::~Database() = default;

Database::Paths Database::default_paths() {
  return {installed_path(), user_path()};
}

Result<Database> Database::open(const Paths& paths) {
  auto state = std::make_unique<State>();
  std::error_code error;
  // An empty file is a database whose creation was interrupted: nothing was stored yet.
  const auto user_size = fs::file_size(paths.user, error);
  if (!error && user_size > 0) {
    GPEMU_ASSIGN(Source user, open_user(paths.user));
    state->sources.push_back(std::move(user));
  }
  GPEMU_ASSIGN(Source installed, open_installed(paths.installed));
  state->sources.push_back(std::move(installed));
  return Database(std::move(state));
}

Result<Database> Database::from_image(std::string_view image) {
  GPEMU_ASSIGN(SqliteConnection connection, SqliteConnection::open_image(image));
  GPEMU_TRY(check_format(connection));
  auto state = std::make_unique<State>();
  state->sources.push_back({std::move(connection), false});
  return Database(std::move(state));
}

Result<GpuSpec> Database::gpu(std::string_view name_or_path) const {
  if (name_or_path.contains('/') || name_or_path.ends_with(".toml")) {
    return load_gpu_spec(name_or_path);
  }
  for (const Source& source : state_->sources) {
    GPEMU_ASSIGN(SqliteStatement row,
                 source.connection.query("SELECT name, toml FROM gpu_spellings JOIN gpus ON "
                                         "gpus.name = gpu_spellings.gpu WHERE spelling = ?",
                                         name_or_path));
    GPEMU_ASSIGN(const bool found, row.step());
    if (found) {
      return parse_gpu_spec(row.text(1),
                            fmt::format("{}: {}", source.connection.name(), row.text(0)));
    }
  }
  GPEMU_ASSIGN(const std::vector<std::string> spellings,
               distinct_texts(state_->sources, "SELECT spelling FROM gpu_spellings"));
  return fail(
      ErrorCode::kNotFound,
      "there is no GPU \"{}\"{}; \"gpemu profile list\" shows all, and a new GPU is given as "
      "the path of its TOML file",
      name_or_path, did_you_mean(name_or_path, spellings));
}

Result<std::vector<std::string>> Database::gpu_names() const {
  return distinct_texts(state_->sources, "SELECT name FROM gpus");
}

Result<ModelInfo> Database::model(std::string_view name) const {
  for (const Source& source : state_->sources) {
    GPEMU_ASSIGN(SqliteStatement row,
                 source.connection.query(
                     fmt::format("SELECT {} WHERE models.name = ? ORDER BY packs.id DESC LIMIT 1",
                                 kModelColumns),
                     name));
    GPEMU_ASSIGN(const bool found, row.step());
    if (found) return read_model(row);
  }
  GPEMU_ASSIGN(const std::vector<std::string> names, model_names());
  return fail(ErrorCode::kNotFound, "there is no model \"{}\"{}; \"gpemu profile list\" shows all",
              name, did_you_mean(name, names));
}

Result<std::vector<std::string>> Database::model_names() const {
  return distinct_texts(state_->sources, "SELECT name FROM models");
}

Result<std::optional<Curve>> Database::curve(const CurveKey& key) const {
  for (const Source& source : state_->sources) {
    GPEMU_ASSIGN(
        SqliteStatement row,
        source.connection.query(
            fmt::format("SELECT {} WHERE model = ? AND gpu = ? AND precision = ? AND quantity = ? "
                        "ORDER BY packs.id DESC LIMIT 1",
                        kCurveColumns),
            key.model, key.gpu, key.precision, quantity_name(key.quantity)));
    GPEMU_ASSIGN(const bool found, row.step());
    if (found) return read_curve(source.connection, row);
  }
  return std::nullopt;
}

Result<std::vector<std::string>> Database::precisions(std::string_view model,
                                                      std::string_view gpu) const {
  return distinct_texts(state_->sources,
                        "SELECT DISTINCT precision FROM curves WHERE model = ? AND gpu = ?", model,
                        gpu);
}

Result<std::optional<MemoryLimit>> Database::memory_limit(std::string_view model,
                                                          std::string_view gpu,
                                                          std::string_view precision) const {
  for (const Source& source : state_->sources) {
    GPEMU_ASSIGN(SqliteStatement row,
                 source.connection.query(
                     fmt::format("SELECT {} WHERE model = ? AND gpu = ? AND precision = ? "
                                 "ORDER BY packs.id DESC LIMIT 1",
                                 kLimitColumns),
                     model, gpu, precision));
    GPEMU_ASSIGN(const bool found, row.step());
    if (found) return read_limit(row);
  }
  return std::nullopt;
}

Result<std::vector<CurveKey>> Database::curve_keys(std::string_view model,
                                                   std::string_view gpu) const {
  std::set<CurveKey> keys;
  for (const Source& source : state_->sources) {
    GPEMU_ASSIGN(
        SqliteStatement row,
        source.connection.query("SELECT DISTINCT model, gpu, precision, quantity FROM curves "
                                "WHERE ?1 IN ('', model) AND ?2 IN ('', gpu)",
                                model, gpu));
    while (true) {
      GPEMU_ASSIGN(const bool found, row.step());
      if (!found) break;
      GPEMU_ASSIGN(const Quantity quantity, quantity_from_name(source.connection, row.text(3)));
      keys.insert({row.text(0), row.text(1), row.text(2), quantity});
    }
  }
  return std::vector<CurveKey>(keys.begin(), keys.end());
}

Result<std::vector<PackEntry>> Database::packs() const {
  std::vector<PackEntry> entries;
  for (const Source& source : state_->sources) {
    GPEMU_TRY(for_each_row(source.connection, fmt::format("SELECT {} ORDER BY name", kPackColumns),
                           [&](const SqliteStatement& row) {
                             entries.push_back({read_pack_info(row), source.from_user});
                           }));
  }
  return entries;
}

Result<Pack> Database::pack(std::string_view name) const {
  for (const Source& source : state_->sources) {
    GPEMU_ASSIGN(
        SqliteStatement row,
        source.connection.query(fmt::format("SELECT {} WHERE name = ?", kPackColumns), name));
    GPEMU_ASSIGN(const bool found, row.step());
    if (found) return read_pack(source.connection, read_pack_info(row));
  }
  GPEMU_ASSIGN(const std::vector<std::string> names,
               distinct_texts(state_->sources, "SELECT name FROM packs"));
  return fail(ErrorCode::kNotFound, "there is no pack \"{}\"{}; \"gpemu profile list\" shows all",
              name, did_you_mean(name, names));
}

}  // namespace gpemu::profile
