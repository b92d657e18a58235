// SPDX-License-Identifier: Apache-2.0
// Products and solves: two arithmetic operations for each entry and column; the entries are read
// once, the dense sides read and written once.
#include <algorithm>

#include "cusparse.hpp"
#include "library_types.hpp"

int submit_sparse(const void* handle, const char* name, gpemu_data_type type, int64_t operations,
                  int64_t bytes) {
  const Sparse* const sparse = find_object<Sparse>(handle);
  if (sparse == nullptr) {
    return kNotInitialized;
  }
  if (operations < 0 || bytes < 0) {
    return kInvalidValue;
  }
  gpemu_operation operation = {};
  operation.struct_size = sizeof(operation);
  operation.kind = GPEMU_OPERATION_OTHER;
  operation.type = type;
  operation.shape[0] = operations;
  operation.shape[1] = bytes;
  operation.name = name;
  return gpemu_cuda_submit(&operation, sparse->stream) == GPEMU_CUDA_SUCCESS ? kSuccess
                                                                             : kExecutionFailed;
}

int leave_uncomputed(int status, const void* handle, const char* name, gpemu_data_type type,
                     const Written& written) {
  if (status != kSuccess || written.values == nullptr || written.rows <= 0 ||
      written.columns <= 0 || written.count <= 0) {
    return status;
  }
  const int64_t width = gpemu_data_type_bytes(type);
  gpemu_cuda_result result = {};
  result.address = address_of(written.values);
  result.rows = static_cast<uint64_t>(written.columns);
  uint64_t stride = 0;
  if (!count_bytes(written.rows, width, &result.bytes) ||
      !count_bytes(written.leading, width, &result.pitch) ||
      !count_bytes(written.stride, width, &stride)) {
    return kInvalidValue;
  }
  // Matrices that follow each other like their own columns are one matrix.
  uint64_t count = static_cast<uint64_t>(written.count);
  if (result.rows == 1 || (stride % result.rows == 0 && stride / result.rows == result.pitch)) {
    result.pitch = result.rows == 1 ? stride : result.pitch;
    if (__builtin_mul_overflow(result.rows, count, &result.rows)) {
      return kInvalidValue;
    }
    count = 1;
  }
  constexpr uint64_t kMostCalls = 4096;
  if (count > kMostCalls) {  // One range, in which the gaps keep their content.
    uint64_t last = 0;
    if (__builtin_mul_overflow(count - 1, stride, &last) ||
        __builtin_mul_overflow(result.rows - 1, result.pitch, &result.pitch) ||
        __builtin_add_overflow(result.bytes, result.pitch, &result.bytes) ||
        __builtin_add_overflow(result.bytes, last, &result.bytes)) {
      return kInvalidValue;
    }
    result.rows = 1;
    result.updates = 1;
    count = 1;
  }
  const gpemu_cuda_stream_handle stream = find_object<Sparse>(handle)->stream;
  for (uint64_t i = 0; i < count; ++i, result.address += stride) {
    if (gpemu_cuda_leave_uncomputed(&result, name, stream) != GPEMU_CUDA_SUCCESS) {
      return kExecutionFailed;
    }
  }
  return kSuccess;
}

namespace {

int64_t index_bytes(int index_type) {
  return index_type == kIndex64 ? 8 : index_type == kIndex16 ? 2 : 4;
}

double bytes_of_matrix(const Matrix& matrix) {
  const auto value = static_cast<double>(gpemu_data_type_bytes(type_of_cuda(matrix.value_type)));
  const auto batch = static_cast<double>(matrix.batch);
  if (!matrix.sparse) {
    return batch * static_cast<double>(matrix.rows) * static_cast<double>(matrix.columns) * value;
  }
  const double offsets = matrix.format == kCsr ? static_cast<double>(matrix.rows) + 1
                                               : static_cast<double>(matrix.entries);
  return batch * (static_cast<double>(matrix.entries) *
                      (value + static_cast<double>(index_bytes(matrix.column_index_type))) +
                  offsets * static_cast<double>(index_bytes(matrix.row_index_type)));
}

// `c` is the product of `a` and `b`; a sparse `c` takes only the products at its own entries.
int price(const void* handle, const char* name, const void* a, const void* b, const void* c) {
  const Matrix* const left = find_object<Matrix>(a);
  const Matrix* const right = find_object<Matrix>(b);
  const Matrix* const result = find_object<Matrix>(c);
  if (left == nullptr || right == nullptr || result == nullptr) {
    return kInvalidValue;
  }
  const bool sampled = result->sparse;
  const auto entries = static_cast<double>(sampled ? result->entries : left->entries);
  const auto inner = static_cast<double>(sampled ? left->columns : result->columns);
  const auto batch = static_cast<double>(std::max(left->batch, result->batch));
  return submit_sparse(
      handle, name, type_of_cuda(result->value_type), entry_of(2 * batch * entries * inner),
      entry_of(bytes_of_matrix(*left) + bytes_of_matrix(*right) + bytes_of_matrix(*result)));
}

/// As above, and `c` is written.
int run(const void* handle, const char* name, const void* a, const void* b, const void* c) {
  const int status = price(handle, name, a, b, c);
  const Matrix* const result = find_object<Matrix>(c);
  if (status != kSuccess || result == nullptr) {
    return status;
  }
  const bool by_rows = result->order == kRowMajor;
  Written written{result->values,
                  by_rows ? result->columns : result->rows,
                  by_rows ? result->rows : result->columns,
                  result->leading,
                  result->batch,
                  result->batch_stride};
  if (result->sparse) {
    written.rows = result->entries;
    written.columns = 1;
  }
  return leave_uncomputed(status, handle, name, type_of_cuda(result->value_type), written);
}

// The real sizes are not documented; such algorithms keep a carry per row.
int answer_size(const void* handle, const void* a, const void* b, const void* c, size_t* bytes) {
  if (find_object<Sparse>(handle) == nullptr) {
    return kNotInitialized;
  }
  const Matrix* const left = find_object<Matrix>(a);
  if (left == nullptr || find_object<Matrix>(b) == nullptr || find_object<Matrix>(c) == nullptr ||
      bytes == nullptr) {
    return kInvalidValue;
  }
  *bytes = static_cast<size_t>(entry_of(times(16, left->rows) + 256));
  return kSuccess;
}

bool valid_operation(int operation) {
  return operation >= 0 && operation <= kLastOperation;
}

}  // namespace

GPEMU_SHIM_EXPORT int cusparseSpMV_bufferSize(void* handle, int operation, const void*,
                                              const void* a, const void* x, const void*,
                                              const void* y, int, int, size_t* bytes) {
  return valid_operation(operation) ? answer_size(handle, a, x, y, bytes) : kInvalidValue;
}
GPEMU_SHIM_EXPORT int cusparseSpMV(void* handle, int operation, const void* alpha, const void* a,
                                   const void* x, const void* beta, const void* y, int, int,
                                   void*) {
  return valid_operation(operation) && alpha != nullptr && beta != nullptr
             ? run(handle, "cusparseSpMV", a, x, y)
             : kInvalidValue;
}

GPEMU_SHIM_EXPORT int cusparseSpMM_bufferSize(void* handle, int operation_a, int operation_b,
                                              const void*, const void* a, const void* b,
                                              const void*, const void* c, int, int, size_t* bytes) {
  return valid_operation(operation_a) && valid_operation(operation_b)
             ? answer_size(handle, a, b, c, bytes)
             : kInvalidValue;
}
GPEMU_SHIM_EXPORT int cusparseSpMM(void* handle, int operation_a, int operation_b,
                                   const void* alpha, const void* a, const void* b,
                                   const void* beta, const void* c, int, int, void*) {
  return valid_operation(operation_a) && valid_operation(operation_b) && alpha != nullptr &&
                 beta != nullptr
             ? run(handle, "cusparseSpMM", a, b, c)
             : kInvalidValue;
}

GPEMU_SHIM_EXPORT int cusparseSDDMM_bufferSize(void* handle, int operation_a, int operation_b,
                                               const void*, const void* a, const void* b,
                                               const void*, const void* c, int, int,
                                               size_t* bytes) {
  return valid_operation(operation_a) && valid_operation(operation_b)
             ? answer_size(handle, a, b, c, bytes)
             : kInvalidValue;
}
GPEMU_SHIM_EXPORT int cusparseSDDMM_preprocess(void* handle, int operation_a, int operation_b,
                                               const void*, const void* a, const void* b,
                                               const void*, const void* c, int, int, void*) {
  size_t bytes = 0;  // it prepares the buffer; the price of the run includes that
  return valid_operation(operation_a) && valid_operation(operation_b)
             ? answer_size(handle, a, b, c, &bytes)
             : kInvalidValue;
}
GPEMU_SHIM_EXPORT int cusparseSDDMM(void* handle, int operation_a, int operation_b,
                                    const void* alpha, const void* a, const void* b,
                                    const void* beta, const void* c, int, int, void*) {
  return valid_operation(operation_a) && valid_operation(operation_b) && alpha != nullptr &&
                 beta != nullptr
             ? run(handle, "cusparseSDDMM", a, b, c)
             : kInvalidValue;
}

GPEMU_SHIM_EXPORT int cusparseSpSV_bufferSize(void* handle, int operation, const void*,
                                              const void* a, const void* x, const void* y, int, int,
                                              void*, size_t* bytes) {
  return valid_operation(operation) ? answer_size(handle, a, x, y, bytes) : kInvalidValue;
}
GPEMU_SHIM_EXPORT int cusparseSpSV_analysis(void* handle, int operation, const void*, const void* a,
                                            const void* x, const void* y, int, int, void*, void*) {
  return valid_operation(operation) ? price(handle, "cusparseSpSV_analysis", a, x, y)
                                    : kInvalidValue;
}
GPEMU_SHIM_EXPORT int cusparseSpSV_solve(void* handle, int operation, const void* alpha,
                                         const void* a, const void* x, const void* y, int, int,
                                         void*) {
  return valid_operation(operation) && alpha != nullptr ? run(handle, "cusparseSpSV_solve", a, x, y)
                                                        : kInvalidValue;
}

GPEMU_SHIM_EXPORT int cusparseSpSM_bufferSize(void* handle, int operation_a, int operation_b,
                                              const void*, const void* a, const void* b,
                                              const void* c, int, int, void*, size_t* bytes) {
  return valid_operation(operation_a) && valid_operation(operation_b)
             ? answer_size(handle, a, b, c, bytes)
             : kInvalidValue;
}
GPEMU_SHIM_EXPORT int cusparseSpSM_analysis(void* handle, int operation_a, int operation_b,
                                            const void*, const void* a, const void* b,
                                            const void* c, int, int, void*, void*) {
  return valid_operation(operation_a) && valid_operation(operation_b)
             ? price(handle, "cusparseSpSM_analysis", a, b, c)
             : kInvalidValue;
}
GPEMU_SHIM_EXPORT int cusparseSpSM_solve(void* handle, int operation_a, int operation_b,
                                         const void* alpha, const void* a, const void* b,
                                         const void* c, int, int, void*) {
  return valid_operation(operation_a) && valid_operation(operation_b) && alpha != nullptr
             ? run(handle, "cusparseSpSM_solve", a, b, c)
             : kInvalidValue;
}
