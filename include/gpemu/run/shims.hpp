// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "gpemu/base/error.hpp"

namespace gpemu::run {

/// Finds the folder of the shims for NVIDIA's libraries relative to this process's program, either
/// in a build tree or in an installation.
///
/// Errors: kNotFound if there are none.
[[nodiscard]] Result<std::filesystem::path> find_shims();

}  // namespace gpemu::run
