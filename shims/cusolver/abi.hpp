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

/// cusolverEigMode_t.
enum EigenMode : int { kNoVectors = 0, kVectors = 1 };

// Source: cublas_api.h, whose types cuSOLVER uses.

/// cublasFillMode_t, cublasOperation_t: the last of each.
constexpr int kLastFill = 1, kLastOperation = 2;

/// cublasSideMode_t.
enum Side : int { kLeft = 0, kRight = 1 };
