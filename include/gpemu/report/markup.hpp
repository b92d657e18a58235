// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace gpemu::report {

/// Returns text as HTML and SVG have it, between tags and in quoted attributes. A control character
/// becomes a space.
[[nodiscard]] std::string escaped(std::string_view text);

/// Returns UTF-8 text of at most `most` characters, the last of which is an ellipsis where the text
/// was longer. Requires: most > 0.
[[nodiscard]] std::string shortened(std::string_view text, std::size_t most);

/// Returns how many characters a UTF-8 text has.
[[nodiscard]] std::size_t character_count(std::string_view text);

}  // namespace gpemu::report
