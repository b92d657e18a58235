// SPDX-License-Identifier: Apache-2.0
#include "gpemu/profile/pack.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "gpemu/base/file.hpp"
#include "gpemu/base/temporary_folder.hpp"

#include "pack_format.hpp"

namespace gpemu::profile {
namespace {

namespace fs = std::filesystem;

/// Holds what the pack was made of, for people and other tools; nothing in it counts.
constexpr std::string_view kRawFolder = "raw";

/// Returns the folders in `folder`, in order of their names.
Result<std::vector<fs::path>> subfolders(const fs::path& folder) {
  GPEMU_ASSIGN(std::vector<fs::path> paths, list_folder(folder));
  std::erase_if(paths, [](const fs::path& path) {
    std::error_code ignored;
    return !fs::is_directory(path, ignored);
  });
  return paths;
}

/// Returns a file's content, or nothing when there is no such file.
Result<std::optional<std::string>> read_optional(const fs::path& path) {
  Result<std::string> text = read_file(path);
  if (text) return *std::move(text);
  if (text.error().code == ErrorCode::kNotFound) return std::nullopt;
  return std::unexpected(std::move(text).error());
}

Result<DeviceTables> read_device(const fs::path& folder, std::vector<PackFault>& faults) {
  DeviceTables device;
  device.folder = folder;
  device.precision = folder.filename().string();
  device.gpu = folder.parent_path().filename().string();

  const fs::path curves = folder / "curves.csv";
  GPEMU_ASSIGN(const std::optional<std::string> curves_text, read_optional(curves));
  if (curves_text) {
    device.curves = parse_curves(*curves_text, curves, faults);
  } else {
    faults.push_back({curves, 0, "the file is missing"});
  }
  const fs::path limits = folder / "limits.csv";
  GPEMU_ASSIGN(const std::optional<std::string> limits_text, read_optional(limits));
  if (limits_text) device.limits = parse_limits(*limits_text, limits, faults);

  for (std::size_t i = 0; i < device.points.size(); ++i) {
    const auto quantity = static_cast<Quantity>(i);
    const fs::path points = folder / points_file_name(quantity);
    GPEMU_ASSIGN(const std::optional<std::string> points_text, read_optional(points));
    if (points_text) device.points[i] = parse_points(*points_text, quantity, points, faults);
  }
  return device;
}

/// Gives every row of curves.csv its points, and reports those without a partner.
void join_points(DeviceTables& device, std::vector<PackFault>& faults) {
  for (std::size_t i = 0; i < device.points.size(); ++i) {
    const auto quantity = static_cast<Quantity>(i);
    const std::string file_name = points_file_name(quantity);
    std::map<std::string_view, Curve*> curves;
    for (CurveRow& row : device.curves) {
      if (row.curve.key.quantity == quantity) curves.emplace(row.curve.key.model, &row.curve);
    }
    std::string_view reported;
    for (const PointRow& row : device.points[i]) {
      const auto curve = curves.find(row.model);
      if (curve != curves.end()) {
        curve->second->points.push_back(row.point);
      } else if (reported != row.model) {
        reported = row.model;
        faults.push_back({device.folder / file_name, row.line,
                          fmt::format("curves.csv has no row \"{},{},...\"", row.model,
                                      quantity_name(quantity))});
      }
    }
    for (const CurveRow& row : device.curves) {
      if (row.curve.key.quantity == quantity && row.curve.points.empty()) {
        faults.push_back({device.folder / "curves.csv", row.line,
                          fmt::format("{} has no row of {}", file_name, row.curve.key.model)});
      }
    }
  }
}

Pack to_pack(PackTables tables) {
  Pack pack;
  for (ModelRow& row : tables.models) {
    row.model.pack = tables.info.info.name;
    pack.models.push_back(std::move(row.model));
  }
  for (DeviceTables& device : tables.devices) {
    for (CurveRow& row : device.curves) {
      row.curve.key.gpu = device.gpu;
      row.curve.key.precision = device.precision;
      row.curve.pack = tables.info.info.name;
      pack.curves.push_back(std::move(row.curve));
    }
    for (LimitRow& row : device.limits) {
      row.limit.gpu = device.gpu;
      row.limit.precision = device.precision;
      row.limit.pack = tables.info.info.name;
      pack.limits.push_back(std::move(row.limit));
    }
  }
  pack.info = std::move(tables.info.info);
  return pack;
}

/// Reads the recordings of a pack, by model; their content is not looked at.
Result<std::vector<ModelRecording>> read_recordings(const fs::path& folder) {
  std::vector<ModelRecording> recordings;
  const Result<std::vector<fs::path>> paths = list_folder(folder);
  if (!paths && paths.error().code == ErrorCode::kNotFound) return recordings;
  if (!paths) return std::unexpected(paths.error());
  for (const fs::path& path : *paths) {
    if (path.extension() != ".json") continue;
    GPEMU_ASSIGN(std::string text, read_file(path));
    recordings.push_back({.model = path.stem().string(), .text = std::move(text)});
  }
  std::ranges::sort(recordings, {}, &ModelRecording::model);
  return recordings;
}

/// Returns whether an entry is a folder of files that are not read here, raw results, recorded
/// operations or times of single ones, or a file in it; `depth` counts the folders below the pack's
/// own.
bool is_aside(const fs::directory_entry& entry, int depth) {
  std::error_code error;
  const fs::path& path = entry.path();
  const bool is_folder = entry.is_directory(error);
  const auto is_one = [](const fs::path& name) {
    return name == kRawFolder || name == kOperationsFolder;
  };
  if (depth == 0) return is_folder && is_one(path.filename());
  const fs::path folder = path.parent_path().filename();
  return depth == 1 && !is_folder && is_one(folder) &&
         (path.extension() == ".json" ||
          path.extension() == (folder == kRawFolder ? ".csv" : ".jsonl"));
}

/// Reports what has no business in a pack: it would look as if it counted.
void check_stray_files(const fs::path& folder, std::vector<PackFault>& faults) {
  std::vector<std::string> device_files = {"curves.csv", "limits.csv"};
  for (std::size_t i = 0; i < kQuantityNames.size(); ++i) {
    device_files.push_back(points_file_name(static_cast<Quantity>(i)));
  }
  const std::vector<std::string> root_files = {"pack.toml", "models.csv", "README.md"};
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const int depth = entry.depth();
    const std::string name = entry->path().filename().string();
    const bool expected = is_aside(*entry, depth) ||
                          (entry->is_directory(error)
                               ? depth < 2
                               : (depth == 0 && std::ranges::count(root_files, name) > 0) ||
                                     (depth == 2 && std::ranges::count(device_files, name) > 0));
    if (!expected)
      faults.push_back({entry->path(), 0, "not a part of a pack; remove or rename it"});
    if (!expected && entry->is_directory(error)) entry.disable_recursion_pending();
  }
  if (error) faults.push_back({folder, 0, error.message()});
}

Result<void> write_files(const std::map<fs::path, std::string>& files, const fs::path& folder) {
  for (const auto& [path, text] : files) {
    std::error_code error;
    fs::create_directories((folder / path).parent_path(), error);
    if (error) {
      return fail(ErrorCode::kIo, "cannot create {}: {}", (folder / path).parent_path().string(),
                  error.message());
    }
    GPEMU_TRY(write_file_atomically(folder / path, text));
  }
  return {};
}

}  // namespace

Result<PackTables> read_pack_tables(const fs::path& folder, std::vector<PackFault>& faults) {
  PackTables tables;
  tables.folder = folder;
  const fs::path info = folder / "pack.toml";
  GPEMU_ASSIGN(const std::string info_text, read_file(info));
  tables.info = parse_pack_info(info_text, info, faults);
  const fs::path models = folder / "models.csv";
  GPEMU_ASSIGN(const std::string models_text, read_file(models));
  tables.models = parse_models(models_text, models, faults);

  GPEMU_ASSIGN(const std::vector<fs::path> gpus, subfolders(folder));
  for (const fs::path& gpu : gpus) {
    if (gpu.filename() == kRawFolder || gpu.filename() == kOperationsFolder) continue;
    GPEMU_ASSIGN(const std::vector<fs::path> precisions, subfolders(gpu));
    for (const fs::path& precision : precisions) {
      GPEMU_ASSIGN(DeviceTables device, read_device(precision, faults));
      join_points(device, faults);
      tables.devices.push_back(std::move(device));
    }
  }
  return tables;
}

Result<void> first_fault(const std::vector<PackFault>& faults) {
  if (faults.empty()) return {};
  return fail(ErrorCode::kCorruptData, "{}:{}: {}", faults.front().file.string(),
              faults.front().line, faults.front().message);
}

Result<Pack> load_pack(const fs::path& folder) {
  std::vector<PackFault> faults;
  GPEMU_ASSIGN(PackTables tables, read_pack_tables(folder, faults));
  GPEMU_TRY(first_fault(faults));
  Pack pack = to_pack(std::move(tables));
  GPEMU_ASSIGN(pack.recordings, read_recordings(folder / kOperationsFolder));
  return pack;
}

Result<PackInfo> load_pack_info(const fs::path& file) {
  GPEMU_ASSIGN(const std::string text, read_file(file));
  std::vector<PackFault> faults;
  InfoRow row = parse_pack_info(text, file, faults);
  GPEMU_TRY(first_fault(faults));
  return std::move(row.info);
}

Result<std::vector<ModelInfo>> load_models(const fs::path& file) {
  GPEMU_ASSIGN(const std::string text, read_file(file));
  std::vector<PackFault> faults;
  std::vector<ModelInfo> models;
  for (ModelRow& row : parse_models(text, file, faults)) models.push_back(std::move(row.model));
  GPEMU_TRY(first_fault(faults));
  return models;
}

Result<void> write_pack(const Pack& pack, const fs::path& folder) {
  GPEMU_ASSIGN(const auto files, format_pack(pack));
  std::error_code error;
  if (fs::exists(folder, error) && !fs::is_empty(folder, error)) {
    return fail(ErrorCode::kInvalidArgument,
                "{} exists already; give a new folder or remove it first", folder.string());
  }
  fs::path target = fs::absolute(folder, error);
  if (!target.has_filename()) target = target.parent_path();
  fs::create_directories(target.parent_path(), error);
  GPEMU_ASSIGN(const TemporaryFolder temporary,
               TemporaryFolder::create(target.parent_path(),
                                       fmt::format(".gpemu-{}-", target.filename().string())));
  // In a folder of its own, because only the owner may read the temporary one.
  const fs::path written = temporary.path() / "pack";
  Result<void> result = write_files(files, written);
  if (result) {
    fs::rename(written, target, error);
    if (error) {
      result = fail(ErrorCode::kIo, "cannot create {}: {}", folder.string(), error.message());
    }
  }
  return result;
}

std::vector<PackFault> check_pack(const fs::path& folder, std::span<const std::string> known_gpus) {
  std::vector<PackFault> faults;
  const Result<PackTables> tables = read_pack_tables(folder, faults);
  if (!tables) {
    faults.push_back({folder, 0, tables.error().message});
    return faults;
  }
  check_stray_files(folder, faults);
  review_pack(*tables, known_gpus, faults);
  std::ranges::sort(faults, {}, [](const PackFault& fault) {
    return std::tie(fault.file, fault.line, fault.message);
  });
  return faults;
}

}  // namespace gpemu::profile
