// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "abi.hpp"
#include "handle_table.hpp"
#include "library_work.hpp"
#include "shim.hpp"

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
  int64_t batch_stride = 0;  ///< of the values, in elements from a matrix of the batch to the next
};

/// Queues an operation: arithmetic operations and bytes.
///
/// Errors: NOT_INITIALIZED for a dead handle; INVALID_VALUE for negative work.
int submit_sparse(const void* handle, const char* name, gpemu_data_type type, int64_t operations,
                  int64_t bytes);

/// Values that a call writes: `count` matrices of `columns` rows in memory, each of `rows`
/// elements. A vector is a matrix with one column.
struct Written {
  const void* values;
  int64_t rows, columns, leading;
  int64_t count = 1, stride = 0;  ///< elements from a matrix to the next
};

/// Ends a call whose values are not computed, unless it failed with `status`. Errors: INVALID_VALUE
/// for values that no memory holds.
int leave_uncomputed(int status, const void* handle, const char* name, gpemu_data_type type,
                     const Written& written);
