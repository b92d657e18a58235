// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/profile/pack_content.hpp"

// The files of a pack as text and as rows that know their line, see docs/reference/pack-format.md.
// Parsers add what is wrong to `faults`, under the name `file`, and return what is right.

namespace gpemu::profile {

/// The folder of a pack that has its recordings, one file a model.
inline constexpr std::string_view kOperationsFolder = "operations";

struct ModelRow {
  ModelInfo model;  ///< without the pack's name.
  int line = 0;
};

/// pack.toml, and the line of each of its keys.
struct InfoRow {
  PackInfo info;
  std::map<std::string, int, std::less<>> lines;
};

/// A row of curves.csv.
struct CurveRow {
  Curve curve;  ///< without points, GPU, precision and the pack's name.
  int line = 0;
};

/// A row of limits.csv.
struct LimitRow {
  MemoryLimit limit;  ///< without GPU, precision and the pack's name.
  int line = 0;
};

/// A row of a quantity's table.
struct PointRow {
  std::string model;
  CurvePoint point;
  int line = 0;
};

/// One folder <gpu>/<precision> of a pack.
struct DeviceTables {
  std::filesystem::path folder;
  std::string gpu;
  std::string precision;
  std::vector<CurveRow> curves;
  std::vector<LimitRow> limits;
  std::array<std::vector<PointRow>, kQuantityNames.size()> points;  ///< by Quantity.
};

/// All files of a pack.
struct PackTables {
  std::filesystem::path folder;
  InfoRow info;
  std::vector<ModelRow> models;
  std::vector<DeviceTables> devices;
};

[[nodiscard]] InfoRow parse_pack_info(std::string_view toml, const std::filesystem::path& file,
                                      std::vector<PackFault>& faults);
[[nodiscard]] std::vector<ModelRow> parse_models(std::string_view csv,
                                                 const std::filesystem::path& file,
                                                 std::vector<PackFault>& faults);
[[nodiscard]] std::vector<CurveRow> parse_curves(std::string_view csv,
                                                 const std::filesystem::path& file,
                                                 std::vector<PackFault>& faults);
[[nodiscard]] std::vector<LimitRow> parse_limits(std::string_view csv,
                                                 const std::filesystem::path& file,
                                                 std::vector<PackFault>& faults);
[[nodiscard]] std::vector<PointRow> parse_points(std::string_view csv, Quantity quantity,
                                                 const std::filesystem::path& file,
                                                 std::vector<PackFault>& faults);

/// Returns the name of a quantity's table, e.g. "forward.csv".
[[nodiscard]] std::string points_file_name(Quantity quantity);

/// Errors: kInvalidArgument when a name cannot be in a pack.
[[nodiscard]] Result<void> check_pack_names(const Pack& pack);

/// Returns the content of every file of a pack by its path in the pack's folder. The same pack
/// gives the same text, whatever the order of its records.
///
/// Errors: kInvalidArgument when a name cannot be in a pack, or a record is there twice.
[[nodiscard]] Result<std::map<std::filesystem::path, std::string>> format_pack(const Pack& pack);

/// Returns the first fault as an error that names its file and line.
[[nodiscard]] Result<void> first_fault(const std::vector<PackFault>& faults);

/// Reads all files of a pack.
///
/// Errors: kNotFound, kIo.
[[nodiscard]] Result<PackTables> read_pack_tables(const std::filesystem::path& folder,
                                                  std::vector<PackFault>& faults);

/// Adds what is well-formed but wrong, see check_pack().
void review_pack(const PackTables& tables, std::span<const std::string> known_gpus,
                 std::vector<PackFault>& faults);

}  // namespace gpemu::profile
