// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/profile/sweep_spec.hpp"

namespace gpemu::profile {

/// One run of a sweep's command.
struct SweepCell {
  std::size_t number = 0;           ///< from 1 on, in the order of the table.
  std::vector<std::size_t> values;  ///< of each factor the index of its value.
  std::vector<std::string> words;   ///< after "gpemu".
  /// Stands for the words and, beyond the first, the repetition: the same for the same run in any
  /// sweep.
  std::uint64_t key = 0;
};

/// Returns the cells of a sweep: all combinations of the factors' values that match one of the
/// rules `only`, if there are any, and none of `exclude`. The last factor changes fastest.
///
/// Errors: kInvalidArgument if there are none or more than kMostCells, or if two are the same run.
[[nodiscard]] Result<std::vector<SweepCell>> sweep_cells(const SweepSpec& spec);

}  // namespace gpemu::profile
