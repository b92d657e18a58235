// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "blas_abi.hpp"

// Numbers that cuBLAS and cuBLASLt share. Source: cublas_api.h.

/// cublasStatus_t.
enum Status : int {
  kSuccess = 0,
  kNotInitialized = 1,
  kAllocationFailed = 3,
  kInvalidValue = 7,
  kArchMismatch = 8,
  kMappingError = 11,
  kExecutionFailed = 13,
  kInternalError = 14,
  kNotSupported = 15,
  kLicenseError = 16,
};

/// cublasPointerMode_t and cublasLtPointerMode_t.
enum PointerMode : int { kHostPointer = 0, kDevicePointer = 1 };
