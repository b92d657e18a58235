// SPDX-License-Identifier: Apache-2.0
#pragma once

/// CUSPARSE_VER_MAJOR, _MINOR and _PATCH. Source: cusparse.h of cuSPARSE 12.5.8 and 12.7.10.
#if GPEMU_CUDA_MAJOR == 12
constexpr int kVersion[] = {12, 5, 8};
#else
constexpr int kVersion[] = {12, 7, 10};
#endif

// Source: cusparse.h.

/// cusparseStatus_t.
enum Status : int {
  kSuccess = 0,
  kNotInitialized = 1,
  kInvalidValue = 3,
  kExecutionFailed = 6,
  kNotSupported = 10,
};

/// cusparseFormat_t.
enum Format : int { kCsr = 1, kCoo = 3 };

/// cusparseOrder_t.
enum Order : int { kColumnMajor = 1, kRowMajor = 2 };

/// cusparseIndexType_t.
enum IndexType : int { kIndex16 = 1, kIndex32 = 2, kIndex64 = 3 };

/// The last value of each: cusparseOperation_t, cusparsePointerMode_t, cusparseMatrixType_t,
/// cusparseFillMode_t, cusparseDiagType_t, cusparseIndexBase_t, cusparseSpMatAttribute_t.
constexpr int kLastOperation = 2, kLastPointerMode = 1, kLastMatrixType = 3, kLastFillMode = 1,
              kLastDiagonalType = 1, kLastIndexBase = 1, kLastAttribute = 1;
