// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "gpemu/base/error.hpp"

namespace gpemu::tools {

using Environment = std::vector<std::pair<std::string, std::string>>;

/// Returns what a program's environment needs so that it gets the stand-ins for NVIDIA's libraries,
/// which record in a folder. What a run around this process asked for is taken out of this
/// process's own environment: it is not asked of the program.
///
/// Errors: kNotFound when there are no stand-ins beside this command.
[[nodiscard]] Result<Environment> stand_in_environment(const std::filesystem::path& records);

}  // namespace gpemu::tools
