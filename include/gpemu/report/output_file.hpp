// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "gpemu/base/error.hpp"

namespace gpemu::report {

/// Checks that write_file_atomically() to `path` would succeed now, so that a run fails at its
/// start and not at its end. An empty path is valid: nothing will be written.
///
/// Errors: kIo with the path and the reason.
[[nodiscard]] Result<void> check_writable(const std::filesystem::path& path);

/// Checks all files that a run will write, and that no two are the same.
///
/// Errors: kIo as check_writable(); kInvalidArgument for a file named twice.
[[nodiscard]] Result<void> check_outputs(const std::vector<std::filesystem::path>& paths);

/// Returns whether JSON goes to standard output, for the file "-"; nothing else is printed there
/// then.
[[nodiscard]] bool is_printed(const std::filesystem::path& json);

/// Returns the file for JSON; empty if it is printed.
[[nodiscard]] std::filesystem::path file_of(const std::filesystem::path& json);

/// Writes JSON as a whole, or prints it.
///
/// Errors: as write_file_atomically().
[[nodiscard]] Result<void> write_json(const std::filesystem::path& path, std::string_view text);

}  // namespace gpemu::report
