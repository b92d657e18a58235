// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "gpemu/base/units.hpp"
#include "gpemu/kernels/memory.hpp"
#include "gpemu/kernels/number.hpp"
#include "gpemu/kernels/places.hpp"

namespace gpemu::kernels {

/// Indices in memory for which a kernel asserts that they are within a dimension.
struct IndexCheck {
  std::uint64_t address = 0;
  NumberType type = NumberType::kInt64;
  Places places;
  std::int64_t size = 0;                ///< of the dimension.
  bool wraps = false;                   ///< negative indices count from its end.
  std::optional<std::int64_t> ignored;  ///< an index that is allowed.
  /// Not empty: the kernel asserts instead that no value is zero, with this message.
  std::string message;
};

/// Returns what is wrong with the first index that is not allowed; nothing if all are, if they are
/// not known, or if there are more than a million.
[[nodiscard]] std::optional<std::string> find_wrong_index(const IndexCheck& check,
                                                          const Memory& memory);

/// Returns the bytes that find_wrong_index() reads.
[[nodiscard]] Bytes bytes_of(const IndexCheck& check);

}  // namespace gpemu::kernels
