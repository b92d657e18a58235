// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "gpemu/base/error.hpp"

namespace gpemu::run {

/// Checks that a program can be started, by its path or by its name in a folder of `search_path`,
/// and that the dynamic linker will give it the shims. `search_path`: the value of PATH; without
/// it, the folders of execvp(3).
///
/// Errors: kNotFound if it does not exist, kInvalidArgument if it is not executable, kUnsupported
/// if it is statically linked, is for another architecture, or gains privileges.
[[nodiscard]] Result<void> check_program(const std::string& name,
                                         const std::optional<std::string>& search_path);

}  // namespace gpemu::run
