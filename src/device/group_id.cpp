// SPDX-License-Identifier: Apache-2.0
#include "gpemu/device/group_id.hpp"

#include <charconv>
#include <system_error>

#include "gpemu/base/text.hpp"

namespace gpemu::device {

std::string GroupId::to_string() const {
  return fmt::format("{:016x}-{}-{}", key, first_seat, parties);
}

Result<GroupId> GroupId::parse(std::string_view text) {
  GroupId id;
  const char* next = text.data();
  const char* const end = next + text.size();
  const auto number = [&](auto& value, int base, char separator) {
    const auto read = std::from_chars(next, end, value, base);
    next = read.ptr;
    if (read.ec != std::errc{}) return false;
    if (separator == 0) return next == end;
    return next != end && *next++ == separator;
  };
  if (number(id.key, 16, '-') && number(id.first_seat, 10, '-') && number(id.parties, 10, 0)) {
    return id;
  }
  return fail(ErrorCode::kInvalidArgument, "'{}' is not the id of a group",
              printable(std::string(text)));
}

}  // namespace gpemu::device
