// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace gpemu {

/// Returns text from files, processes, segments or the environment in a form that a terminal shows
/// and does not interpret: control characters, bytes that are not UTF-8, and characters that change
/// the direction of writing become escapes such as `\n`, `\t`, `\x1b` or `\u202e`. Printable text
/// stays as it is.
[[nodiscard]] std::string printable(std::string_view text);

/// Like printable(), but newlines and tabs stay. JSON keeps its meaning.
[[nodiscard]] std::string printable_lines(std::string_view text);

/// Makes an error message printable. A message of several lines indents the second and all others
/// by two spaces; any other newline comes from a name and is shown as `\n`, so that no name can
/// imitate a line of gpemu's.
[[nodiscard]] std::string printable_message(std::string_view text);

/// Quotes text as one word for bash, ksh and zsh, in characters that printable() does not change:
/// `n0`, `'my node'`, `$'e\033[31m'`.
[[nodiscard]] std::string shell_word(std::string_view text);

}  // namespace gpemu
