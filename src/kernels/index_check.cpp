// SPDX-License-Identifier: Apache-2.0
#include "gpemu/kernels/index_check.hpp"

#include <cstddef>
#include <vector>

#include <fmt/format.h>

namespace gpemu::kernels {
namespace {

/// Looking at an index takes the host a nanosecond, at each launch.
constexpr Bytes kMostIndices = Bytes{1} << 20;

}  // namespace

Bytes bytes_of(const IndexCheck& check) {
  return check.places.in_order().extent() + number_bytes(check.type);
}

std::optional<std::string> find_wrong_index(const IndexCheck& check, const Memory& memory) {
  if (check.places.count() == 0 || check.places.before() != 0) return std::nullopt;
  const Places places = check.places.in_order();
  const Bytes count = places.count(), bytes = bytes_of(check);
  if (count > kMostIndices || bytes > kMostIndices * 16) return std::nullopt;
  std::vector<std::byte> loaded(bytes);
  if (!memory.load(check.address, loaded.data(), bytes)) return std::nullopt;
  for (Bytes i = 0; i < count; ++i) {
    const Number value = load_number(&loaded[places.offset(i)], check.type);
    const std::int64_t index = value.whole;
    if (!check.message.empty()) {
      if (index == 0 && value.real == 0) return check.message;
      continue;
    }
    const std::int64_t least = check.wraps ? -check.size : 0;
    if ((index >= least && index < check.size) || index == check.ignored) continue;
    return fmt::format("index {} is out of bounds for a dimension of {}", index, check.size);
  }
  return std::nullopt;
}

}  // namespace gpemu::kernels
