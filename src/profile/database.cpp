// SPDX-License-Identifier: Apache-2.0
#include "gpemu/profile/database.hpp"

#include <cstdlib>
#include <dlfcn.h>
#include <set>
#include <system_error>
#include <tuple>
#include <utility>

#include "calibration_adoption.hpp"
#include "database_format.hpp"
#include "database_rows.hpp"
#include "nearest_names.hpp"
#include "sqlite.hpp"

namespace gpemu::profile {
namespace {

namespace fs = std::filesystem;

struct Source {
  SqliteConnection connection;
  bool from_user = false;
};

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

// Returns what `read(connection, row)` makes of each row of a query.
template <typename T, typename... Args>
Result<std::vector<T>> read_all(const SqliteConnection& connection, RowReader<T> read,
                                std::string_view sql, const Args&... args) {
  GPEMU_ASSIGN(SqliteStatement row, connection.query(sql, args...));
  std::vector<T> values;
  while (true) {
    GPEMU_ASSIGN(const bool found, row.step());
    if (!found) return values;
    GPEMU_ASSIGN(T value, read(connection, row));
    values.push_back(std::move(value));
  }
}

// Returns what `read(connection, row)` makes of the first row of the first source that has one.
template <typename T, typename... Args>
Result<std::optional<T>> read_first(const std::vector<Source>& sources, RowReader<T> read,
                                    std::string_view sql, const Args&... args) {
  for (const Source& source : sources) {
    GPEMU_ASSIGN(SqliteStatement row, source.connection.query(sql, args...));
    GPEMU_ASSIGN(const bool found, row.step());
    if (found) return read(source.connection, row);
  }
  return std::nullopt;
}

// Returns what all sources have, in order and without duplicates.
template <typename T, typename... Args>
Result<std::vector<T>> read_distinct(const std::vector<Source>& sources, RowReader<T> read,
                                     std::string_view sql, const Args&... args) {
  std::set<T> values;
  for (const Source& source : sources) {
    GPEMU_ASSIGN(std::vector<T> some, read_all(source.connection, read, sql, args...));
    values.insert(std::move_iterator(some.begin()), std::move_iterator(some.end()));
  }
  return std::vector<T>(values.begin(), values.end());
}

// Appends clauses to one of the SELECTs of database_rows.hpp.
std::string select(std::string_view columns, std::string_view clauses) {
  return std::string(columns).append(clauses);
}

Result<Pack> read_pack(const SqliteConnection& connection, const SqliteStatement& row) {
  Pack pack;
  GPEMU_ASSIGN(pack.info, read_pack_info(connection, row));
  const std::string_view of_pack = "WHERE packs.id = ?";
  const std::int64_t id = row.integer(0);
  GPEMU_ASSIGN(pack.curves, read_all(connection, read_curve, select(kSelectCurve, of_pack), id));
  GPEMU_ASSIGN(pack.limits,
               read_all(connection, read_memory_limit, select(kSelectMemoryLimit, of_pack), id));
  GPEMU_ASSIGN(pack.models, read_all(connection, read_model, select(kSelectModel, of_pack), id));
  GPEMU_ASSIGN(pack.recordings,
               read_all(connection, read_recording, select(kSelectRecording, of_pack), id));
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

namespace {

bool is_path(std::string_view name_or_path) {
  return name_or_path.contains('/') || name_or_path.ends_with(".toml");
}

/// Whether what was measured of one GPU holds for the other.
bool has_same_rates(const GpuSpec& a, const GpuSpec& b) {
  const auto rates = [](const GpuSpec& gpu) {
    return std::tuple(gpu.compute_capability_major, gpu.compute_capability_minor, gpu.generation,
                      gpu.multiprocessors, gpu.boost_clock_mhz, gpu.sustained_clock_mhz,
                      gpu.memory_bytes, gpu.usable_memory_bytes, gpu.memory_bandwidth_bytes_per_s,
                      gpu.fp32_flops, gpu.fp32_product_flops, gpu.fp64_flops, gpu.fp64_tensor_flops,
                      gpu.tf32_tensor_flops, gpu.fp16_tensor_flops, gpu.fp16_product_flops,
                      gpu.bf16_tensor_flops, gpu.fp8_tensor_flops, gpu.pinned_copy_bytes_per_s,
                      gpu.nvlink_bytes_per_s, gpu.nvlink_gpus);
  };
  return rates(a) == rates(b);
}

}  // namespace

Result<void> Database::tell_apart(GpuSpec& spec) const {
  GPEMU_ASSIGN(const std::vector<std::string> names, gpu_names());
  for (const std::string& name : names) {
    GPEMU_ASSIGN(const GpuSpec known, plain_gpu(name));
    if (has_same_rates(spec, known)) continue;
    if (spec.name == name) spec.name += kEditedSuffix;
    // Parameters that were copied with the file were fitted to the GPU that it describes.
    if (spec.calibration && known.calibration &&
        spec.calibration->parameters == known.calibration->parameters) {
      spec.calibration->gpu = name;
    }
  }
  return {};
}

Result<GpuSpec> Database::gpu(std::string_view name_or_path) const {
  GPEMU_ASSIGN(GpuSpec spec, plain_gpu(name_or_path));
  if (is_path(name_or_path)) GPEMU_TRY(tell_apart(spec));
  GPEMU_TRY(adopt_calibrations(spec, [this](std::string_view name) { return plain_gpu(name); }));
  return spec;
}

Result<GpuSpec> Database::gpu(std::string_view name_or_path, std::string_view host) const {
  GPEMU_ASSIGN(GpuSpec spec, gpu(name_or_path));
  if (host.empty()) return spec;
  GPEMU_ASSIGN(const GpuSpec other, gpu(host));
  if (!other.calibration || !spec.calibration) {
    return fail(
        ErrorCode::kInvalidArgument,
        "the launch times in the host of {} are not known: its file has no table calibration "
        "(docs/reference/gpu-file.md); like = \"GPU\" in it takes those of a measured GPU",
        other.calibration ? spec.name : other.name);
  }
  take_host(*other.calibration, *spec.calibration);
  return spec;
}

Result<GpuSpec> Database::plain_gpu(std::string_view name_or_path) const {
  if (is_path(name_or_path)) {
    return load_gpu_spec(name_or_path);
  }
  GPEMU_ASSIGN(std::optional<GpuSpec> spec,
               read_first(state_->sources, read_gpu, select(kSelectGpu, "WHERE spelling = ?"),
                          name_or_path));
  if (spec) return *std::move(spec);
  GPEMU_ASSIGN(const std::vector<std::string> spellings,
               read_distinct(state_->sources, read_text, "SELECT spelling FROM gpu_spellings"));
  return fail(
      ErrorCode::kNotFound,
      "there is no GPU \"{}\"{}; \"gpemu profile list\" shows all, and a new GPU is given as "
      "the path of its TOML file",
      name_or_path, did_you_mean(name_or_path, spellings));
}

Result<std::vector<std::string>> Database::gpu_names() const {
  return read_distinct(state_->sources, read_text, "SELECT name FROM gpus");
}

Result<ModelInfo> Database::model(std::string_view name) const {
  GPEMU_ASSIGN(
      std::optional<ModelInfo> model,
      read_first(state_->sources, read_model,
                 select(kSelectModel, "WHERE models.name = ? ORDER BY packs.id DESC LIMIT 1"),
                 name));
  if (model) return *std::move(model);
  GPEMU_ASSIGN(const std::vector<std::string> names, model_names());
  return fail(ErrorCode::kNotFound, "there is no model \"{}\"{}; \"gpemu profile list\" shows all",
              name, did_you_mean(name, names));
}

Result<std::vector<std::string>> Database::model_names() const {
  return read_distinct(state_->sources, read_text, "SELECT name FROM models");
}

Result<std::optional<std::string>> Database::recording(std::string_view model) const {
  GPEMU_ASSIGN(
      std::optional<ModelRecording> recording,
      read_first(state_->sources, read_recording,
                 select(kSelectRecording, "WHERE model = ? ORDER BY packs.id DESC LIMIT 1"),
                 model));
  if (!recording) return std::nullopt;
  return std::move(recording->text);
}

Result<std::optional<Curve>> Database::curve(const CurveKey& key) const {
  return read_first(state_->sources, read_curve,
                    select(kSelectCurve,
                           "WHERE model = ? AND gpu = ? AND precision = ? AND quantity = ? "
                           "ORDER BY packs.id DESC LIMIT 1"),
                    key.model, key.gpu, key.precision, quantity_name(key.quantity));
}

Result<std::vector<std::string>> Database::precisions(std::string_view model,
                                                      std::string_view gpu) const {
  return read_distinct(state_->sources, read_text,
                       "SELECT DISTINCT precision FROM curves WHERE model = ? AND gpu = ?", model,
                       gpu);
}

Result<std::optional<MemoryLimit>> Database::memory_limit(std::string_view model,
                                                          std::string_view gpu,
                                                          std::string_view precision) const {
  return read_first(state_->sources, read_memory_limit,
                    select(kSelectMemoryLimit,
                           "WHERE model = ? AND gpu = ? AND precision = ? "
                           "ORDER BY packs.id DESC LIMIT 1"),
                    model, gpu, precision);
}

Result<std::vector<CurveKey>> Database::curve_keys(std::string_view model,
                                                   std::string_view gpu) const {
  return read_distinct(state_->sources, read_curve_key,
                       select(kSelectCurveKey, "WHERE ?1 IN ('', model) AND ?2 IN ('', gpu)"),
                       model, gpu);
}

Result<std::vector<PackEntry>> Database::packs() const {
  std::vector<PackEntry> entries;
  for (const Source& source : state_->sources) {
    GPEMU_ASSIGN(std::vector<PackInfo> infos, read_all(source.connection, read_pack_info,
                                                       select(kSelectPackInfo, "ORDER BY name")));
    for (PackInfo& info : infos) entries.push_back({std::move(info), source.from_user});
  }
  return entries;
}

Result<Pack> Database::pack(std::string_view name) const {
  GPEMU_ASSIGN(
      std::optional<Pack> pack,
      read_first(state_->sources, read_pack, select(kSelectPackInfo, "WHERE name = ?"), name));
  if (pack) return *std::move(pack);
  GPEMU_ASSIGN(const std::vector<std::string> names,
               read_distinct(state_->sources, read_text, "SELECT name FROM packs"));
  return fail(ErrorCode::kNotFound, "there is no pack \"{}\"{}; \"gpemu profile list\" shows all",
              name, did_you_mean(name, names));
}

}  // namespace gpemu::profile
