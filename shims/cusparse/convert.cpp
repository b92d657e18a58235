// SPDX-License-Identifier: Apache-2.0
// Conversions and sorts. They move indices and compute nothing that has a price; the indices
// themselves are not computed, so the memory keeps what it held.
#include "cusparse.hpp"

namespace {

bool valid_sizes(int rows, int columns, int entries) {
  return rows >= 0 && columns >= 0 && entries >= 0;
}

int answer_size(const void* handle, int rows, int columns, int entries, size_t* bytes) {
  if (find_handle(handle) == nullptr) {
    return kNotInitialized;
  }
  if (!valid_sizes(rows, columns, entries) || bytes == nullptr) {
    return kInvalidValue;
  }
  *bytes = 16 * static_cast<size_t>(entries) + 256;  // keys and positions, twice
  return kSuccess;
}

// A radix sort passes four times over keys and positions, reading and writing each.
int sort(const void* handle, const char* name, int rows, int columns, int entries,
         const void* keys) {
  return valid_sizes(rows, columns, entries) && (keys != nullptr || entries == 0)
             ? submit_sparse(handle, name, GPEMU_TYPE_INT32, 0, int64_t{4 * 16} * entries)
             : kInvalidValue;
}

}  // namespace

GPEMU_SHIM_EXPORT int cusparseXcoo2csr(void* handle, const int* rows, int entries, int count,
                                       int* offsets, int base) {
  return valid_sizes(count, 0, entries) && (rows != nullptr || entries == 0) &&
                 offsets != nullptr && (base == 0 || base == 1)
             ? submit_sparse(handle, "cusparseXcoo2csr", GPEMU_TYPE_INT32, 0,
                             int64_t{4} * entries + int64_t{4} * count + 4)
             : kInvalidValue;
}
GPEMU_SHIM_EXPORT int cusparseCreateIdentityPermutation(void* handle, int entries, int* positions) {
  return entries >= 0 && (positions != nullptr || entries == 0)
             ? submit_sparse(handle, "cusparseCreateIdentityPermutation", GPEMU_TYPE_INT32, 0,
                             int64_t{4} * entries)
             : kInvalidValue;
}
GPEMU_SHIM_EXPORT int cusparseXcoosort_bufferSizeExt(void* handle, int rows, int columns,
                                                     int entries, const int*, const int*,
                                                     size_t* bytes) {
  return answer_size(handle, rows, columns, entries, bytes);
}
GPEMU_SHIM_EXPORT int cusparseXcoosortByRow(void* handle, int rows, int columns, int entries,
                                            int* row_indices, int*, int*, void*) {
  return sort(handle, "cusparseXcoosortByRow", rows, columns, entries, row_indices);
}
GPEMU_SHIM_EXPORT int cusparseXcsrsort_bufferSizeExt(void* handle, int rows, int columns,
                                                     int entries, const int*, const int*,
                                                     size_t* bytes) {
  return answer_size(handle, rows, columns, entries, bytes);
}
GPEMU_SHIM_EXPORT int cusparseXcsrsort(void* handle, int rows, int columns, int entries,
                                       const void*, const int*, int* column_indices, int*, void*) {
  return sort(handle, "cusparseXcsrsort", rows, columns, entries, column_indices);
}
