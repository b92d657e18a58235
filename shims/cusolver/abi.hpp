// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "blas_abi.hpp"

/// CUSOLVER_VERSION. Source: cusolver_common.h of cuSOLVER 11.7.3 and 12.2.0.
#if GPEMU_CUDA_MAJOR == 12
constexpr int kVersion[] = {11, 7, 3};
#else
constexpr int kVersion[] = {12, 2, 0};
#endif

// Source: cusolver_common.h.

/// cusolverStatus_t.
enum Status : int {
  kSuccess = 0,
  kNotInitialized = 1,
  kAllocFailed = 2,
  kInvalidValue = 3,
  kExecutionFailed = 6,
  kNotSupported = 9,
};

/// cusolverEigMode_t.
enum EigenMode : int { kNoVectors = 0, kVectors = 1 };

/// cublasFillMode_t, cublasOperation_t: the last of each.
constexpr int kLastFill = kUpper, kLastOperation = kConjugated;
