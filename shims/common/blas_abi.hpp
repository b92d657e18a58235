// SPDX-License-Identifier: Apache-2.0
#pragma once

// Numbers of BLAS that cuBLAS, cuBLASLt and cuSOLVER share. Source: cublas_api.h.

/// cublasOperation_t.
enum Transpose : int { kNone = 0, kTransposed = 1, kConjugated = 2 };

/// cublasSideMode_t.
enum Side : int { kLeft = 0, kRight = 1 };

/// cublasFillMode_t.
enum Fill : int { kLower = 0, kUpper = 1 };

/// cublasDiagType_t.
enum Diagonal : int { kNonUnit = 0, kUnit = 1 };
