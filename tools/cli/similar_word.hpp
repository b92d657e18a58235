// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gpemu::tools {

/// Returns the word that was probably meant: the first that needs the fewest changes of letters,
/// with at most one change per three letters; empty if there is none.
[[nodiscard]] std::string similar_word(std::string_view word,
                                       const std::vector<std::string>& known);

/// Returns "; did you mean 'WORD'?" of the similar word, or nothing if there is none.
[[nodiscard]] std::string suggestion(std::string_view word, const std::vector<std::string>& known);

}  // namespace gpemu::tools
