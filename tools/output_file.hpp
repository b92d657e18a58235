// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <vector>

#include "gpemu/base/error.hpp"

namespace gpemu::tools {

/// Checks that write_file_atomically() to `path` would succeed now, so that a run fails before it
/// starts and not at its end. An empty path is fine: nothing will be written.
///
/// Errors: kIo with the path and the reason.
[[nodiscard]] Result<void> check_writable(const std::filesystem::path& path);

/// Checks all files that a run shall write, and that no two are the same.
///
/// Errors: kIo as check_writable(); kInvalidArgument for a file named twice.
[[nodiscard]] Result<void> check_outputs(const std::vector<std::filesystem::path>& paths);

}  // namespace gpemu::tools
