// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/profile/pack.hpp"
#include "gpemu/profile/profile.hpp"

namespace gpemu::profile {

/// All measurements of one curve, in ascending batch order.
struct MeasuredCurve {
  CurveKey key;
  std::vector<CurvePoint> rows;
};

/// What happened to the rows of some tables.
struct RowCounts {
  int measured = 0;
  int extrapolated = 0;  ///< filled in by the publisher of the tables, not measured.
  int dropped = 0;       ///< impossible, e.g. negative memory.
};

/// The measured rows of outside tables.
struct MeasuredData {
  std::vector<MeasuredCurve> curves;
  std::vector<MemoryLimit> limits;
  std::map<std::string, std::array<RowCounts, kQuantityNames.size()>> counts;  ///< by GPU.
  std::vector<std::string> messages;  ///< what was dropped and why, with file and line.
};

/// How outside tables name things.
struct ImportNames {
  /// Returns GpuSpec::name for a GPU's name in the tables, or an error if there is none.
  std::function<Result<std::string>(std::string_view)> gpu;
  /// The precision at which a GPU was measured, by GpuSpec::name; "fp32" for all others.
  std::map<std::string, std::string> precisions;
};

/// Reads the tables that GPEmu publishes, in its own folder layout or as one flat table per GPU;
/// see docs/reference/pack-format.md. In flat tables, flags mark extrapolated rows. In the folder
/// layout nothing marks them; they are found as runs that lie exactly on a polynomial (in compute
/// tables at least three rows at the end).
///
/// Errors: kNotFound if the folder has neither layout or `names` does not know a GPU; kIo;
/// kCorruptData with file and line.
[[nodiscard]] Result<MeasuredData> read_gpemu_tables(const std::filesystem::path& folder,
                                                     const ImportNames& names);

/// The largest relative error that leaving out points may cause at any measured row.
struct FitTolerances {
  double time = 0.015;
  double input_copy = 0.02;
  double peak_memory = 0.005;
  double persistent_memory = 0.01;
};

/// Returns a pack with the fewest points of each measured curve that stay within the tolerances,
/// and those of `models` that were measured.
///
/// Errors: kNotFound if a measured model is not among `models`; kInvalidArgument if the pack's name
/// or a precision is not allowed in a pack.
[[nodiscard]] Result<Pack> fit_pack(const MeasuredData& data, const PackInfo& info,
                                    std::span<const ModelInfo> models,
                                    const FitTolerances& tolerances);

/// How well a pack reproduces measured rows.
struct Fidelity {
  int rows = 0;
  double mean_error = 0;
  double p95_error = 0;
  double max_error = 0;
};

struct PackComparison {
  /// By GPU and quantity, and over all GPUs under the name "all".
  std::map<std::string, std::array<Fidelity, kQuantityNames.size()>> fidelity;
  Fidelity times;  ///< forward and backward together, over all GPUs.
  /// Points that are not measured rows, rows that no curve covers, limits that differ from the
  /// data.
  std::vector<std::string> faults;
};

/// Evaluates a pack at every measured row.
[[nodiscard]] PackComparison compare_pack(const Pack& pack, const MeasuredData& data);

}  // namespace gpemu::profile
