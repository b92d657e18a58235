// SPDX-License-Identifier: Apache-2.0
#pragma once

// Source: cusolver_common.h.

/// cusolverStatus_t.
enum Status : int {
  kSuccess = 0,
  kNotInitialized = 1,
  kAllocFailed = 2,
  kInvalidValue = 3,
  kExecutionFailed = 6,
};
