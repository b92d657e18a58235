// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace gpemu::report {

/// Returns text broken into lines of at most `columns` at its spaces, all but the first indented.
/// Longer words have lines of their own.
[[nodiscard]] std::string wrapped(std::string_view text, std::size_t indent, std::size_t columns);

}  // namespace gpemu::report
