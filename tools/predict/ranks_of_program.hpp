// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "gpemu/base/error.hpp"

namespace gpemu::tools {

/// Returns the words that start a program as one job of so many ranks on one host. A program is
/// Python with a script or a module, to which this adds torchrun's module, or torchrun itself,
/// whose number of processes this replaces.
///
/// Errors: kInvalidArgument for another program, for Python without a script, and for a torchrun of
/// several hosts.
[[nodiscard]] Result<std::vector<std::string>> with_ranks(const std::vector<std::string>& words,
                                                          int ranks);

}  // namespace gpemu::tools
