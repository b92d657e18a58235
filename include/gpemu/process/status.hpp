// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>

#include "gpemu/cuda.h"

namespace gpemu::process {

using Status = gpemu_cuda_status;

/// Reports an exception to the user and returns the status for it: OUT_OF_MEMORY for
/// std::bad_alloc, else UNKNOWN.
[[nodiscard]] Status status_after(const std::exception& exception);

}  // namespace gpemu::process

/// Returns the status of an expression from the enclosing function unless it is SUCCESS.
#define GPEMU_CUDA_TRY(expression)                                                 \
  do {                                                                             \
    const gpemu_cuda_status gpemu_cuda_try_status = (expression);                  \
    if (gpemu_cuda_try_status != GPEMU_CUDA_SUCCESS) return gpemu_cuda_try_status; \
  } while (false)

/// Each function of gpemu/cuda.h is `... try { ... } GPEMU_CUDA_CATCH`, so that no exception
/// reaches the program, which may be in C. It costs nothing where none is thrown. It does not catch
/// `...`, because a thread that is cancelled or that calls pthread_exit unwinds through here.
#define GPEMU_CUDA_CATCH                            \
  catch (const std::exception& exception) {         \
    return gpemu::process::status_after(exception); \
  }

/// The same for functions that return nothing.
#define GPEMU_CUDA_CATCH_VOID                                   \
  catch (const std::exception& exception) {                     \
    static_cast<void>(gpemu::process::status_after(exception)); \
  }
