// SPDX-License-Identifier: Apache-2.0
#include "gpemu/report/wrapped_text.hpp"

#include <algorithm>

namespace gpemu::report {

std::string wrapped(std::string_view text, std::size_t indent, std::size_t columns) {
  std::string result;
  std::size_t column = indent;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(" \n"), text.size());
    const std::string_view word = text.substr(0, end);
    const bool first = column == indent;
    if (!first && column + 1 + word.size() > columns) {
      result += '\n';
      result.append(indent, ' ');
      column = indent;
    } else if (!first) {
      result += ' ';
      ++column;
    }
    result += word;
    column += word.size();
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return result;
}

}  // namespace gpemu::report
