// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shim.hpp"

// Source: cusolver_common.h, cusolverStatus_t.
inline constexpr int kSuccess = 0;
inline constexpr int kNotInitialized = 1;
inline constexpr int kAllocFailed = 2;
inline constexpr int kInvalidValue = 3;
inline constexpr int kExecutionFailed = 6;

/// What a handle keeps.
struct Solver {
  gpemu_cuda_stream_handle stream;
};

/// Returns the solver that a handle names, or null when it is not alive.
Solver* find_solver(const void* handle);
