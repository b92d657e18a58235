// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shim.hpp"

// Source: cusolver_common.h, cusolverStatus_t.
inline constexpr int kSuccess = 0;
inline constexpr int kNotInitialized = 1;
inline constexpr int kAllocFailed = 2;
inline constexpr int kInvalidValue = 3;
inline constexpr int kExecutionFailed = 6;

/// The state of a handle.
struct Solver {
  gpemu_cuda_stream_handle stream;
};

/// Returns the solver of a handle, or null if it is not alive.
Solver* find_solver(const void* handle);
