// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/base/variables.hpp"
#include "gpemu/profile/gpu_spec.hpp"
#include "gpemu/profile/pack.hpp"
#include "gpemu/profile/profile.hpp"

namespace gpemu::profile {

/// A pack that a database holds.
struct PackEntry {
  PackInfo info;
  bool from_user = false;  ///< in the user's database, not the installed one.
};

/// Suffix of the name of a GPU whose file was edited; see Database::gpu().
inline constexpr std::string_view kEditedSuffix = "-edited";

/// Read-only view of the installed profile database, overlaid with the user's own: if both hold the
/// same record, the user's wins.
///
/// Opening reads no profiles; each query reads what it needs. Thread safety: none; one thread at a
/// time.
class Database {
 public:
  struct Paths {
    std::filesystem::path installed;
    std::filesystem::path user;  ///< need not exist.
  };

  /// Returns the paths of the databases, which the environment variables name. Installed:
  /// GPEMU_PROFILES if set, else `share/gpemu/profiles.db` in the nearest folder above this library
  /// or program, both in an installation and in a build tree. User's: `gpemu/profiles.db` in
  /// XDG_DATA_HOME, by default
  /// `~/.local/share`.
  [[nodiscard]] static Paths default_paths(const Lookup& lookup = std::getenv);

  /// Errors: kNotFound without the installed database; kIncompatible for a file of another kind or
  /// version; kUnavailable while another process writes the user's; kIo, kCorruptData.
  [[nodiscard]] static Result<Database> open(const Paths& paths);

  /// Returns a database from the content of a database file; see build_database_image().
  ///
  /// Errors: kIncompatible for content of another kind or version.
  [[nodiscard]] static Result<Database> from_image(std::string_view image);

  Database(Database&&) noexcept;
  Database& operator=(Database&&) noexcept;
  ~Database();

  /// Returns a GPU by name or alias, ignoring case, or by the path of a TOML file (a name with '/'
  /// or ending in ".toml"), with the calibrations of the GPUs that its file names.
  ///
  /// A file with the name of a GPU in the database, but other rates, describes a GPU that was not
  /// measured: its name becomes NAME-edited, and no measurement applies to it.
  ///
  /// Errors: kNotFound, with similar names; for a file those of load_gpu_spec(), and kCorruptData
  /// if a GPU that it names has no calibration.
  [[nodiscard]] Result<GpuSpec> gpu(std::string_view name_or_path) const;
  /// The same in the host of another GPU: with the launch times that were measured there. An empty
  /// `host` changes nothing.
  ///
  /// Errors: as above for both; kInvalidArgument if the other GPU's host was not measured.
  [[nodiscard]] Result<GpuSpec> gpu(std::string_view name_or_path, std::string_view host) const;
  [[nodiscard]] Result<std::vector<std::string>> gpu_names() const;

  /// Returns a model by name, ignoring case.
  ///
  /// Errors: kNotFound, with the nearest names.
  [[nodiscard]] Result<ModelInfo> model(std::string_view name) const;
  [[nodiscard]] Result<std::vector<std::string>> model_names() const;

  /// Returns a model's recording in the format of docs/reference/recording-format.md; nothing if
  /// there is none.
  [[nodiscard]] Result<std::optional<std::string>> recording(std::string_view model) const;

  /// Returns nothing if there is no such curve.
  [[nodiscard]] Result<std::optional<Curve>> curve(const CurveKey& key) const;

  /// Returns the precisions for which (model, gpu) has curves, e.g. {"fp32"}.
  [[nodiscard]] Result<std::vector<std::string>> precisions(std::string_view model,
                                                            std::string_view gpu) const;

  /// Returns nothing if it was not measured up to which batch (model, gpu, precision) fits.
  [[nodiscard]] Result<std::optional<MemoryLimit>> memory_limit(std::string_view model,
                                                                std::string_view gpu,
                                                                std::string_view precision) const;

  /// Returns the keys of all curves in order, restricted to a model or a GPU if a name is given.
  [[nodiscard]] Result<std::vector<CurveKey>> curve_keys(std::string_view model = {},
                                                         std::string_view gpu = {}) const;

  /// Returns all packs, the user's first, by name.
  [[nodiscard]] Result<std::vector<PackEntry>> packs() const;

  /// Returns one pack with its whole content; of two with the same name, the user's.
  ///
  /// Errors: kNotFound, with the nearest names.
  [[nodiscard]] Result<Pack> pack(std::string_view name) const;

 private:
  struct State;
  explicit Database(std::unique_ptr<State> state);
  [[nodiscard]] Result<GpuSpec> plain_gpu(std::string_view name_or_path) const;
  [[nodiscard]] Result<void> tell_apart(GpuSpec& spec) const;
  std::unique_ptr<State> state_;
};

}  // namespace gpemu::profile
