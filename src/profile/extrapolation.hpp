// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "gpemu/profile/profile.hpp"

namespace gpemu::profile {

/// One row of GPEmu's memory tables, in MiB.
struct MemoryRow {
  int batch = 0;
  double peak = 0;
  double persistent = 0;
};

/// Returns where the rows begin that a straight line filled in behind the last measured one, or
/// rows.size() when there are none. Measured times are noisy, so three rows at the end that lie on
/// one line, as exactly as the numbers are printed, are taken for filled in; a fill of one or two
/// rows cannot be told from measurements. Requires: rows in ascending order of batches.
[[nodiscard]] std::size_t find_linear_fill(std::span<const CurvePoint> rows);

/// Returns for each row whether a second-degree polynomial over the batch filled it in.
///
/// In tables at full precision a row is measured exactly when both sizes are whole multiples of 512
/// bytes, as an allocator hands them out. In rounded tables it is filled in when it lies on the
/// polynomial that most rows lie on; that may condemn a measured row.
/// Source: 512 bytes is kMinBlockSize of PyTorch's CUDACachingAllocator.
[[nodiscard]] std::vector<bool> find_polynomial_fill(std::span<const MemoryRow> rows);

/// Returns for each row in front of `tail` whether it lies on the second-degree polynomial of the
/// rows from there on, which are filled in: so it was, too, where flags forgot a single row. With
/// less than six rows in the tail none does, nor far in front of it. May condemn a measured row.
[[nodiscard]] std::vector<bool> find_rows_on_tail(std::span<const MemoryRow> rows,
                                                  std::size_t tail);

}  // namespace gpemu::profile
