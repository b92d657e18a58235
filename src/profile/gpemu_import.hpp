// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "gpemu/profile/pack.hpp"

#include "extrapolation.hpp"

// GPEmu's tables as text, see docs/reference/pack-format.md. Parsers add what is wrong to `faults`,
// under the name `file`, and return what is right.

namespace gpemu::profile {

/// One row of a flat table. The names are those of its columns.
struct FlatRow {
  std::string model;
  int batch = 0;
  double forward_ms = 0;
  double backward_ms = 0;
  bool compute_measured = false;
  double h2d_pageable_ms = 0;
  double peak_mib = 0;
  double persistent_mib = 0;
  bool memory_measured = false;
  int line = 0;
};

/// Returns the rows of a time table, in milliseconds; each stands one line below the one before it,
/// the first in line 2.
[[nodiscard]] std::vector<CurvePoint> parse_time_table(std::string_view csv,
                                                       const std::filesystem::path& file,
                                                       std::vector<PackFault>& faults);
[[nodiscard]] std::vector<MemoryRow> parse_memory_table(std::string_view csv,
                                                        const std::filesystem::path& file,
                                                        std::vector<PackFault>& faults);
[[nodiscard]] std::vector<FlatRow> parse_flat_table(std::string_view csv,
                                                    const std::filesystem::path& file,
                                                    std::vector<PackFault>& faults);

}  // namespace gpemu::profile
