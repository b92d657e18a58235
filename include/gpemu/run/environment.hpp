// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpemu::run {

/// How the environment of a program differs from its caller's.
struct Environment {
  std::vector<std::pair<std::string, std::string>> set;  ///< by name.
  std::vector<std::string> unset;                        ///< `set` has precedence.
  std::vector<std::string> paths;  ///< made absolute: the program may change its folder.
  std::string programs;            ///< a folder that PATH begins with; "" for none.
};

/// Returns the value of PATH in which a folder is the first, and not again.
[[nodiscard]] std::string path_with(const std::string& folder, std::string_view path);

/// Returns the entries "NAME=value" of `own` with the differences applied. Paths in `own` are
/// relative to `folder`.
[[nodiscard]] std::vector<std::string> changed(const std::vector<std::string>& own,
                                               const Environment& environment,
                                               const std::filesystem::path& folder);

}  // namespace gpemu::run
