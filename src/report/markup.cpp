// SPDX-License-Identifier: Apache-2.0
#include "gpemu/report/markup.hpp"

#include <algorithm>

namespace gpemu::report {
namespace {

bool starts_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0) != 0x80;
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string result;
  for (const char character : text) {
    switch (character) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\'':
        result += "&#39;";
        break;
      default:
        result += static_cast<unsigned char>(character) < ' ' ? ' ' : character;
    }
  }
  return result;
}

std::size_t character_count(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, starts_character));
}

std::string shortened(std::string_view text, std::size_t most) {
  if (character_count(text) <= most) return std::string(text);
  std::size_t end = 0;
  for (std::size_t characters = 0; characters < most; ++end) {
    if (starts_character(text[end])) ++characters;
  }
  // The loop has passed the first byte of the character that the ellipsis replaces.
  return std::string(text.substr(0, end - 1)) + "…";
}

}  // namespace gpemu::report
