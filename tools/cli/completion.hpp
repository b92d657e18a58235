// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.hpp"

namespace gpemu::tools {

/// A word that may follow at the cursor, and its meaning, which may be empty.
struct Candidate {
  std::string word;
  std::string meaning;

  bool operator==(const Candidate&) const = default;
};

/// Returns the values that an option or argument with this name may have, e.g. all GPUs for
/// "--gpu".
using ValuesOf = std::function<std::vector<std::string>(std::string_view name)>;

/// Returns the possible completions of a command line. `words` follow the command's own name; the
/// last is the text typed so far, possibly "". There are none if a file or a program is expected.
[[nodiscard]] std::vector<Candidate> candidates(Command app, const std::vector<std::string>& words,
                                                const ValuesOf& values_of);

}  // namespace gpemu::tools
