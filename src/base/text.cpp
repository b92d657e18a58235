// SPDX-License-Identifier: Apache-2.0
#include "gpemu/base/text.hpp"

#include <cstdint>
#include <optional>

#include <fmt/format.h>

namespace gpemu {
namespace {

/// A character of UTF-8 text: its number and how many bytes it takes.
struct Character {
  std::uint32_t number;
  std::size_t bytes;
};

/// Returns the first character of `text`, or nothing if it is not UTF-8. Source: RFC 3629, which
/// excludes overlong forms, surrogates, and numbers beyond U+10FFFF.
std::optional<Character> first_character(std::string_view text) {
  const auto byte = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return Character{first, 1};
  const std::size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < bytes) return std::nullopt;
  std::uint32_t number = first & (0xffU >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0U) != 0x80) return std::nullopt;
    number = number << 6U | (byte(i) & 0x3fU);
  }
  constexpr std::uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = number >= 0xd800 && number < 0xe000;
  if (number < kLeast[bytes] || number > 0x10ffff || surrogate) return std::nullopt;
  return Character{number, bytes};
}

/// Returns whether a terminal would act on a character rather than show it: C0 and C1 controls,
/// line and paragraph separators, marks and overrides of direction. Source: Unicode 15.1, general
/// categories Cc, Zl and Zp, and the bidirectional classes of UAX 9, table 1.
bool is_obeyed(std::uint32_t number) {
  return number < 0x20 || (number >= 0x7f && number < 0xa0) || number == 0x061c ||
         (number >= 0x200e && number <= 0x200f) || (number >= 0x2028 && number <= 0x202e) ||
         (number >= 0x2066 && number <= 0x2069);
}

std::string escaped(std::uint32_t number) {
  if (number == '\n') return "\\n";
  if (number == '\r') return "\\r";
  if (number == '\t') return "\\t";
  // From here on as in JSON, which has already escaped the earlier ones: so JSON keeps its meaning.
  return number < 0x7f ? fmt::format("\\x{:02x}", number) : fmt::format("\\u{:04x}", number);
}

/// Escapes everything that a terminal obeys, except newlines and tabs for which `keep` returns
/// true; it gets the character and the text after it.
template <typename Keep>
std::string escape(std::string_view text, const Keep& keep) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const std::optional<Character> character = first_character(text);
    const std::size_t bytes = character ? character->bytes : 1;
    if (!character) {
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
    } else if (!is_obeyed(character->number) ||
               ((text[0] == '\n' || text[0] == '\t') && keep(text[0], text.substr(1)))) {
      result += text.substr(0, bytes);
    } else {
      result += escaped(character->number);
    }
    text.remove_prefix(bytes);
  }
  return result;
}

}  // namespace

std::string printable(std::string_view text) {
  return escape(text, [](char /*space*/, std::string_view /*rest*/) { return false; });
}

std::string printable_lines(std::string_view text) {
  return escape(text, [](char /*space*/, std::string_view /*rest*/) { return true; });
}

std::string printable_message(std::string_view text) {
  return escape(text, [](char space, std::string_view rest) {
    return space == '\n' && rest.starts_with("  ");
  });
}

std::string shell_word(std::string_view text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/+:@%";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string_view::npos) {
    return std::string(text);
  }
  if (!text.contains('\'') && printable(text) == text) return fmt::format("'{}'", text);
  std::string word;
  for (const char character : text) {
    const auto byte = static_cast<unsigned char>(character);
    // An octal escape ends after three digits; with \x, a following digit would become part of it.
    const bool plain = byte >= 0x20 && byte < 0x7f && character != '\'' && character != '\\';
    word += plain ? std::string(1, character) : fmt::format("\\{:03o}", byte);
  }
  return fmt::format("$'{}'", word);
}

}  // namespace gpemu
