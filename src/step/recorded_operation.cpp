// SPDX-License-Identifier: Apache-2.0
#include "gpemu/step/recorded_operation.hpp"

#include <algorithm>

namespace gpemu::step {

kernels::DescribedOperation RecordedOperation::at(std::int64_t batch) const {
  kernels::DescribedOperation result{.operation = {.struct_size = sizeof(gpemu_operation),
                                                   .kind = kind,
                                                   .type = type,
                                                   .compute_type = compute_type,
                                                   .channels_last = channels_last ? 1 : 0,
                                                   .shape = {},
                                                   .name = name.c_str(),
                                                   .arguments = nullptr,
                                                   .access = access},
                                     .operation_class = operation_class};
  std::ranges::transform(shape, result.operation.shape,
                         [batch](const AffineEntry& entry) { return entry.at(batch); });
  return result;
}

}  // namespace gpemu::step
