// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "gpemu/cuda.h"
#include "gpemu/process/status.hpp"

namespace gpemu::cuda {

/// Queues the calls of one group. Errors: those of gpemu_cuda_comm_run.
[[nodiscard]] process::Status run_collectives(std::span<const gpemu_cuda_comm_call> calls);

/// Finds out what NCCL's tuner expects of the last collective of a group. Errors: those of
/// gpemu_cuda_comm_expected_time.
[[nodiscard]] process::Status find_expected_time(std::span<const gpemu_cuda_comm_call> calls,
                                                 double* microseconds);

}  // namespace gpemu::cuda
