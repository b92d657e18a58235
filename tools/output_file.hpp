// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "gpemu/base/error.hpp"

namespace gpemu::tools {

/// Checks that write_file_atomically() to `path` would succeed now, so that a run fails before it
/// starts and not at its end. An empty path is fine: nothing will be written.
///
/// Errors: kIo with the path and the reason.
[[nodiscard]] Result<void> check_writable(const std::filesystem::path& path);

}  // namespace gpemu::tools
