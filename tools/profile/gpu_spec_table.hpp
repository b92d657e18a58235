// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "gpemu/profile/gpu_spec.hpp"

namespace gpemu::tools {

/// One number of a GPU specification, in the unit at the end of its name.
struct SpecNumber {
  std::string_view path;  ///< where it stands in the TOML file, e.g. "memory.bandwidth_gb_per_s".
  double value = 0;
  std::string_view source;  ///< its citation; valid as long as the specification.
};

/// Returns all numbers of a specification, in the order of its file.
[[nodiscard]] std::vector<SpecNumber> spec_numbers(const profile::GpuSpec& spec);

}  // namespace gpemu::tools
