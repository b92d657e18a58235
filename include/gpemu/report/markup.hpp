// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace gpemu::report {

/// Escapes text for HTML and SVG, between tags and in quoted attributes. A control character
/// becomes a space.
[[nodiscard]] std::string escaped(std::string_view text);

/// Returns UTF-8 text of at most `most` characters; if the text was longer, the last one is an
/// ellipsis. Requires: most > 0.
[[nodiscard]] std::string shortened(std::string_view text, std::size_t most);

/// Returns how many characters a UTF-8 text has.
[[nodiscard]] std::size_t character_count(std::string_view text);

}  // namespace gpemu::report
