// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "gpemu/base/error.hpp"

namespace gpemu::device {

/// Identifies a group of a node. The group's creator passes it to the other parties.
struct GroupId {
  std::uint64_t key = 0;
  std::uint32_t first_seat = 0;
  std::uint32_t parties = 0;

  bool operator==(const GroupId&) const = default;
  /// Returns the id as text without spaces.
  [[nodiscard]] std::string to_string() const;
  /// Errors: kInvalidArgument for other text.
  [[nodiscard]] static Result<GroupId> parse(std::string_view text);
};

}  // namespace gpemu::device
