// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "gpemu/base/error.hpp"

namespace gpemu::mps {

/// What CUDA processes, the control daemon and MPS servers tell each other (docs/design/mps.md).
///
/// As text: a line with the kind, lines "name value", an empty line, and the text.
struct Message {
  std::string kind;
  std::map<std::string, std::string> values;  ///< without newlines.
  std::string text;                           ///< may have several lines.

  /// Returns a value; "" if there is none.
  [[nodiscard]] std::string value(const std::string& name) const;
  /// Returns a value as a whole number; nothing if it is none.
  [[nodiscard]] std::optional<std::int64_t> number(const std::string& name) const;
};

/// The longest message. Source: more than the answer to `ps` with the most clients.
inline constexpr std::size_t kMostMessageBytes = 64 << 10;

/// Returns a message as text; what is too long for a message is cut off.
[[nodiscard]] std::string encode(const Message& message);

/// Errors: kCorruptData if it is no message.
[[nodiscard]] Result<Message> decode(std::string_view text);

}  // namespace gpemu::mps
