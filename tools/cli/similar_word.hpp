// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gpemu::tools {

/// Returns the word that `word` was probably meant to be: the first of those that the fewest
/// changes of a letter lead to, at most one change for each three letters; empty when there is
/// none.
[[nodiscard]] std::string similar_word(std::string_view word,
                                       const std::vector<std::string>& known);

}  // namespace gpemu::tools
