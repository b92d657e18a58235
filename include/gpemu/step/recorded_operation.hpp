// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "gpemu/kernels/described_operation.hpp"
#include "gpemu/operation.h"
#include "gpemu/step/recorded_memory.hpp"

namespace gpemu::step {

/// An operation of a recording, for any batch.
struct RecordedOperation {
  gpemu_operation_kind kind = GPEMU_OPERATION_OTHER;
  std::string name;  ///< of the library's function, or of a kernel without template arguments.
  kernels::OperationClass operation_class = kernels::OperationClass::kOther;
  gpemu_data_type type = GPEMU_TYPE_UNKNOWN;
  gpemu_data_type compute_type = GPEMU_TYPE_UNKNOWN;
  gpemu_access access = GPEMU_ACCESS_CONTIGUOUS;
  bool channels_last = false;
  std::array<AffineEntry, GPEMU_OPERATION_SHAPE_LENGTH> shape{};

  /// Returns the operation at a batch; it refers to this object's name.
  [[nodiscard]] kernels::DescribedOperation at(std::int64_t batch) const;
  friend bool operator==(const RecordedOperation&, const RecordedOperation&) = default;
};

}  // namespace gpemu::step
