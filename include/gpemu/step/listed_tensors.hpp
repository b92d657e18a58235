// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "gpemu/operation.h"
#include "gpemu/step/recorded_operation.hpp"

namespace gpemu::step {

/// Counts the tensors that a step's optimizer updates by kernels over lists of them. For each pass
/// over all tensors, it launches a kernel several times.
class ListedTensors {
 public:
  /// Adds an operation of the step that is asked for so many times.
  void add(const RecordedOperation& operation, std::int64_t times = 1);

  /// Returns how many tensors there are; 0 if no lists are known.
  [[nodiscard]] std::int64_t tensors() const;

  /// Returns how many launches of the optimizer were added.
  [[nodiscard]] std::int64_t launches() const { return launches_; }

 private:
  /// The name of a kernel, if it is known, and how much it reads for what it writes.
  using Kernel = std::pair<std::string, std::pair<std::int64_t, std::int64_t>>;

  std::int64_t launches_ = 0;
  std::map<gpemu_data_type, std::map<Kernel, std::int64_t>> finished_;
};

}  // namespace gpemu::step
