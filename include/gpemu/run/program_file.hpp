// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "gpemu/base/error.hpp"

namespace gpemu::run {

/// Checks that a program can be started, by its path or by its name in PATH, and that the loader
/// will give it the shims.
///
/// Errors: kNotFound if it does not exist, kInvalidArgument if it is not executable, kUnsupported
/// if it is statically linked, is for another architecture, or gains privileges.
[[nodiscard]] Result<void> check_program(const std::string& name);

}  // namespace gpemu::run
