// SPDX-License-Identifier: Apache-2.0
#include "gpemu/device/part.hpp"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>

namespace gpemu::device {
namespace {

/// Takes the number at the beginning of a text.
std::optional<int> take_number(std::string_view& text) {
  int number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

}  // namespace

Result<std::vector<int>> part_of_node(std::string_view list, int device_count) {
  std::vector<int> part;
  if (list.empty()) {
    part.resize(static_cast<std::size_t>(device_count));
    std::iota(part.begin(), part.end(), 0);
    return part;
  }
  for (std::string_view rest = list; !rest.empty();) {
    const std::optional<int> first = take_number(rest);
    std::optional<int> last = first;
    if (rest.starts_with('-')) {
      rest.remove_prefix(1);
      last = take_number(rest);
    }
    const bool is_last = rest.empty();
    if (!first || !last || *last < *first || (!is_last && (rest.front() != ',' || rest == ","))) {
      return fail(ErrorCode::kInvalidArgument,
                  "\"{}\" is not a list of devices: give indices and ranges, e.g. 0-3,6", list);
    }
    if (!is_last) rest.remove_prefix(1);
    if (*last >= device_count) {
      return fail(ErrorCode::kInvalidArgument,
                  "\"{}\" names device {}, but the node has {}: 0 to {}", list, *last, device_count,
                  device_count - 1);
    }
    for (int device = *first; device <= *last; ++device) {
      if (std::ranges::count(part, device) > 0) {
        return fail(ErrorCode::kInvalidArgument, "\"{}\" names device {} twice", list, device);
      }
      part.push_back(device);
    }
  }
  return part;
}

}  // namespace gpemu::device
