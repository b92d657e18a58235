// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace gpemu::tools {

/// Returns the words after "gpemu" with a form's name if they call `train` or `analyze` with
/// --data,
/// --host, --data-service or --synthetic in its place, and prints how to write that. Options that
/// have no effect in that form are left out. Other words stay as they are.
[[nodiscard]] std::vector<std::string> without_former_words(std::vector<std::string> words);

}  // namespace gpemu::tools
