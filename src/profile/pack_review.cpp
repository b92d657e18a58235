// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "pack_format.hpp"

namespace gpemu::profile {
namespace {

/// How far a quantity may fall below its value at a smaller batch before it must be a mistake.
/// Algorithms do change with the batch size, so real curves fall. Source: the measured rows of
/// GPEmu's tables (36 models, 6 GPUs), whose deepest falls are to 0.60 for times (mnasnet0_5 on
/// Quadro RTX 6000, forward), 1.00 for peak and 0.96 for persistent memory.
constexpr std::array<double, kQuantityNames.size()> kDeepestFall = {0.5, 0.5, 0.5, 0.9, 0.8};

class Review {
 public:
  Review(const PackTables& tables, std::span<const std::string> known_gpus,
         std::vector<PackFault>& faults)
      : tables_(tables), known_gpus_(known_gpus), faults_(faults) {
    for (const ModelRow& row : tables.models) models_.insert(row.model.name);
  }

  void run() {
    // What could not be parsed has been reported.
    if (!tables_.info.info.name.empty()) check_info();
    bool any_curve = false;
    for (const DeviceTables& device : tables_.devices) {
      any_curve = any_curve || !device.curves.empty();
      check_device(device);
    }
    if (!any_curve) fault(tables_.folder, 0, "the pack holds no curve");
    for (const ModelRow& row : tables_.models) {
      if (!used_models_.contains(row.model.name)) {
        fault(tables_.folder / "models.csv", row.line,
              fmt::format("no table has a row of {}", row.model.name));
      }
    }
  }

 private:
  void fault(const std::filesystem::path& file, int line, std::string message) {
    faults_.push_back({file, line, std::move(message)});
  }

  void check_info() {
    const std::filesystem::path file = tables_.folder / "pack.toml";
    const PackInfo& info = tables_.info.info;
    const auto line = [this](std::string_view key) {
      const auto found = tables_.info.lines.find(key);
      return found == tables_.info.lines.end() ? 0 : found->second;
    };
    const std::pair<std::string_view, const std::string&> stated[] = {
        {"title", info.title},     {"citation", info.citation}, {"url", info.url},
        {"licence", info.licence}, {"method", info.method},     {"framework", info.framework},
        {"host", info.host}};
    for (const auto& [key, value] : stated) {
      if (value == kNotStated) fault(file, line(key), fmt::format("\"{}\" is not stated", key));
    }
    if (info.samples == 0) {
      fault(file, line("samples"),
            "\"samples\", the measurements behind each number, is not stated");
    }
    const std::string folder_name =
        std::filesystem::weakly_canonical(tables_.folder).filename().string();
    if (info.name != folder_name) {
      fault(file, line("name"),
            fmt::format("the pack is named {} and its folder {}", info.name, folder_name));
    }
    for (const auto& [gpu, note] : info.gpu_notes) {
      if (std::ranges::find(tables_.devices, gpu, &DeviceTables::gpu) == tables_.devices.end()) {
        fault(file, line("gpu"), fmt::format("a note on {}, which has no folder", gpu));
      }
    }
  }

  void check_device(const DeviceTables& device) {
    if (!known_gpus_.empty() && std::ranges::find(known_gpus_, device.gpu) == known_gpus_.end()) {
      fault(device.folder.parent_path(), 0,
            fmt::format("unknown GPU {}; add catalog/gpus/{}.toml or correct the name", device.gpu,
                        device.gpu));
    }
    for (const CurveRow& row : device.curves) {
      check_model(device.folder / "curves.csv", row.line, row.curve.key.model);
      check_errors(device, row);
    }
    for (const LimitRow& row : device.limits) {
      check_model(device.folder / "limits.csv", row.line, row.limit.model);
      check_limit(device, row);
    }
    for (std::size_t i = 0; i < device.points.size(); ++i) {
      check_falls(device, static_cast<Quantity>(i));
    }
    check_memory(device);
  }

  void check_model(const std::filesystem::path& file, int line, const std::string& model) {
    used_models_.insert(model);
    if (!models_.contains(model)) {
      fault(file, line, fmt::format("models.csv has no model {}", model));
    }
  }

  void check_errors(const DeviceTables& device, const CurveRow& row) {
    const std::filesystem::path file = device.folder / "curves.csv";
    const Curve& curve = row.curve;
    if (curve.p90_relative_error > curve.p95_relative_error ||
        curve.p95_relative_error > curve.max_relative_error ||
        curve.mean_relative_error > curve.max_relative_error) {
      fault(file, row.line, "errors must ascend: p90 <= p95 <= max, and mean <= max");
    }
    const auto points = static_cast<int>(curve.points.size());
    if (points > curve.measured_rows) {
      fault(file, row.line,
            fmt::format("{} points from {} measured rows", points, curve.measured_rows));
    }
  }

  void check_limit(const DeviceTables& device, const LimitRow& row) {
    const std::filesystem::path file = device.folder / "limits.csv";
    const MemoryLimit& limit = row.limit;
    if (limit.first_batch_out_of_memory &&
        *limit.first_batch_out_of_memory <= limit.largest_batch_measured) {
      fault(file, row.line,
            fmt::format("batch {} ran, and batch {} did not fit", limit.largest_batch_measured,
                        *limit.first_batch_out_of_memory));
    }
    // Copies and memory are measured on their own, beyond what a step can reach.
    for (const Quantity quantity : {Quantity::kForward, Quantity::kBackwardOptimizer}) {
      for (const PointRow& point : device.points[static_cast<std::size_t>(quantity)]) {
        if (point.model == limit.model && point.point.batch > limit.largest_batch_measured) {
          fault(device.folder / points_file_name(quantity), point.line,
                fmt::format("beyond {}, the largest batch measured by limits.csv",
                            limit.largest_batch_measured));
        }
      }
    }
  }

  void check_falls(const DeviceTables& device, Quantity quantity) {
    const double deepest = kDeepestFall[static_cast<std::size_t>(quantity)];
    const PointRow* highest = nullptr;
    for (const PointRow& row : device.points[static_cast<std::size_t>(quantity)]) {
      if (highest == nullptr || highest->model != row.model ||
          row.point.value >= highest->point.value) {
        highest = &row;
      } else if (row.point.value < deepest * highest->point.value) {
        fault(device.folder / points_file_name(quantity), row.line,
              fmt::format("{} {} at batch {}, below {} of the {} at batch {}", row.point.value,
                          quantity_unit(quantity), row.point.batch, deepest, highest->point.value,
                          highest->point.batch));
      }
    }
  }

  /// Reports persistent memory above the peak at the same batch.
  void check_memory(const DeviceTables& device) {
    std::map<std::pair<std::string_view, int>, double> peaks;
    for (const PointRow& row : device.points[static_cast<std::size_t>(Quantity::kPeakMemory)]) {
      peaks.emplace(std::pair<std::string_view, int>(row.model, row.point.batch), row.point.value);
    }
    for (const PointRow& row :
         device.points[static_cast<std::size_t>(Quantity::kPersistentMemory)]) {
      const auto peak = peaks.find({row.model, row.point.batch});
      if (peak != peaks.end() && row.point.value > peak->second) {
        fault(device.folder / points_file_name(Quantity::kPersistentMemory), row.line,
              fmt::format("more than the peak, {} mib", peak->second));
      }
    }
  }

  const PackTables& tables_;
  std::span<const std::string> known_gpus_;
  std::vector<PackFault>& faults_;
  std::set<std::string> models_;
  std::set<std::string> used_models_;
};

}  // namespace

void review_pack(const PackTables& tables, std::span<const std::string> known_gpus,
                 std::vector<PackFault>& faults) {
  Review(tables, known_gpus, faults).run();
}

}  // namespace gpemu::profile
