// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shim.hpp"

// Source: cusparse.h, cusparseStatus_t.
inline constexpr int kSuccess = 0;
inline constexpr int kNotInitialized = 1;
inline constexpr int kInvalidValue = 3;
inline constexpr int kExecutionFailed = 6;

/// The state of a handle.
struct Sparse {
  gpemu_cuda_stream_handle stream = nullptr;
  int pointer_mode = 0;
};

/// A sparse or dense matrix, or a vector (one column), as its creator described it.
struct Matrix {
  bool sparse = false;
  int64_t rows = 0, columns = 0, entries = 0;
  int64_t leading = 0;
  int format = 0;  ///< cusparseFormat_t
  int index_base = 0;
  int row_index_type = 0, column_index_type = 0;  ///< cusparseIndexType_t
  int value_type = 0;                             ///< cudaDataType
  int order = 0;                                  ///< cusparseOrder_t
  void* row_indices = nullptr;
  void* column_indices = nullptr;
  void* values = nullptr;
  int64_t batch = 1;
};

/// Return the object of a handle, or null if it is not alive.
Sparse* find_handle(const void* handle);
Matrix* find_matrix(const void* descriptor);

/// Queues an operation: arithmetic operations and bytes.
///
/// Errors: NOT_INITIALIZED for a dead handle; INVALID_VALUE for negative work.
int submit_sparse(const void* handle, const char* name, gpemu_data_type type, int64_t operations,
                  int64_t bytes);
