// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "gpemu/base/error.hpp"

namespace gpemu::run {

/// Finds the folder of the shims for NVIDIA's libraries beside this process's program: in a
/// build tree, or installed.
///
/// Errors: kNotFound when there are none.
[[nodiscard]] Result<std::filesystem::path> find_shims();

}  // namespace gpemu::run
