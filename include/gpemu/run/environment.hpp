// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace gpemu::run {

/// How the environment of a program differs from its caller's.
struct Environment {
  std::vector<std::pair<std::string, std::string>> set;  ///< by name.
  std::vector<std::string> unset;                        ///< `set` has precedence.
  std::vector<std::string> paths;  ///< made absolute: the program may change its folder.
};

/// Returns the entries "NAME=value" of `own` with the differences applied. Paths in `own` are
/// relative to `folder`.
[[nodiscard]] std::vector<std::string> changed(const std::vector<std::string>& own,
                                               const Environment& environment,
                                               const std::filesystem::path& folder);

}  // namespace gpemu::run
