// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpemu/cuda.h"

namespace gpemu::cuda {

using Status = gpemu_cuda_status;

}  // namespace gpemu::cuda

/// Returns the status of an expression from the enclosing function unless it is SUCCESS.
#define GPEMU_CUDA_TRY(expression)                                                 \
  do {                                                                             \
    const gpemu_cuda_status gpemu_cuda_try_status = (expression);                  \
    if (gpemu_cuda_try_status != GPEMU_CUDA_SUCCESS) return gpemu_cuda_try_status; \
  } while (false)
