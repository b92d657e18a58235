// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace gpemu {

/// Returns a name or other text of files, processes, segments or the environment so that a terminal
/// shows it and does not obey it: control characters, bytes that are not UTF-8, and characters that
/// change the direction of writing become `\n`, `\t`, `\x1b` or `\u202e`. Text without them, and
/// text that is printable already, stays as it is.
[[nodiscard]] std::string printable(std::string_view text);

/// As printable(), but text may have several lines: newlines stay. JSON keeps its meaning.
[[nodiscard]] std::string printable_lines(std::string_view text);

/// Makes an error message printable. A message of several lines indents the second and all others
/// by two spaces; any other newline comes from a name and is shown as `\n`, so that no name can
/// look like a line of gpemu's.
[[nodiscard]] std::string printable_message(std::string_view text);

/// Returns a text as one word of a command that bash, ksh and zsh read, in characters that
/// printable() leaves as they are: `n0`, `'my node'`, `$'e\033[31m'`.
[[nodiscard]] std::string shell_word(std::string_view text);

}  // namespace gpemu
