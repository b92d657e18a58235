// SPDX-License-Identifier: Apache-2.0
#include "gpemu/mps/message.hpp"

#include <algorithm>
#include <charconv>

#include "gpemu/base/text.hpp"

namespace gpemu::mps {

std::string Message::value(const std::string& name) const {
  const auto found = values.find(name);
  return found == values.end() ? "" : found->second;
}

std::optional<std::int64_t> Message::number(const std::string& name) const {
  const std::string digits = value(name);
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return number;
}

std::string encode(const Message& message) {
  std::string text = message.kind + "\n";
  for (const auto& [name, value] : message.values) {
    std::string line = value;
    std::ranges::replace(line, '\n', ' ');
    text += fmt::format("{} {}\n", name, line);
  }
  text += "\n" + message.text;
  if (text.size() > kMostMessageBytes) text.resize(kMostMessageBytes);
  return text;
}

Result<Message> decode(std::string_view text) {
  Message message;
  const auto next_line = [&text]() -> std::optional<std::string_view> {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    return line;
  };
  const auto kind = next_line();
  if (!kind || kind->empty()) return fail(ErrorCode::kCorruptData, "a message has no kind");
  message.kind = *kind;
  for (auto line = next_line(); line; line = next_line()) {
    if (line->empty()) {
      message.text = text;
      return message;
    }
    const std::size_t space = line->find(' ');
    if (space == 0 || space == std::string_view::npos) break;
    message.values.emplace(line->substr(0, space), line->substr(space + 1));
  }
  return fail(ErrorCode::kCorruptData, "the message '{}' is not complete", printable(*kind));
}

}  // namespace gpemu::mps
