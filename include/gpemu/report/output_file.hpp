// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "gpemu/base/error.hpp"

namespace gpemu::report {

/// Checks that write_file_atomically() to `path` would succeed now, so that a run fails before it
/// starts and not at its end. An empty path is fine: nothing will be written.
///
/// Errors: kIo with the path and the reason.
[[nodiscard]] Result<void> check_writable(const std::filesystem::path& path);

/// Checks all files that a run shall write, and that no two are the same.
///
/// Errors: kIo as check_writable(); kInvalidArgument for a file named twice.
[[nodiscard]] Result<void> check_outputs(const std::vector<std::filesystem::path>& paths);

/// JSON to the file "-" is printed on standard output, which then gets nothing else.
[[nodiscard]] bool is_printed(const std::filesystem::path& json);

/// Returns the file that JSON goes to; empty where it is printed.
[[nodiscard]] std::filesystem::path file_of(const std::filesystem::path& json);

/// Writes JSON as a whole, or prints it.
///
/// Errors: as write_file_atomically().
[[nodiscard]] Result<void> write_json(const std::filesystem::path& path, std::string_view text);

}  // namespace gpemu::report
