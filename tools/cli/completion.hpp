// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;  // Its header takes the compiler seconds.
}

namespace gpemu::tools {

/// A word that may stand where the cursor is, and what it means; empty where it says it all.
struct Candidate {
  std::string word;
  std::string meaning;

  bool operator==(const Candidate&) const = default;
};

/// Returns the values that an option or an argument of this name may have, e.g. all GPUs of
/// "--gpu".
using ValuesOf = std::function<std::vector<std::string>(std::string_view name)>;

/// Returns what may come next on a command line. `words` follow the command's own name; the last is
/// what is typed so far, maybe "". Where a file or a program is expected there are none.
[[nodiscard]] std::vector<Candidate> candidates(const CLI::App& app,
                                                const std::vector<std::string>& words,
                                                const ValuesOf& values_of);

}  // namespace gpemu::tools
