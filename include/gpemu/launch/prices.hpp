// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpemu/cost/operation_cost.hpp"
#include "gpemu/process/device_state.hpp"

namespace gpemu::launch {

/// Prices an operation on a device. The calling thread's last prices are remembered, because
/// programs repeat the same steps. Thread safety: any thread.
[[nodiscard]] cost::OperationCost price_on(const process::DeviceState& device,
                                           const kernels::DescribedOperation& described);

}  // namespace gpemu::launch
