// SPDX-License-Identifier: Apache-2.0
// Block-sparse products and solves of the older interface. Each block is dense.
#include "cusparse.hpp"
#include "library_types.hpp"

namespace {

bool valid_blocks(int rows, int columns, int blocks, int side) {
  return rows >= 0 && columns >= 0 && blocks >= 0 && side >= 1;
}

/// Prices a product or a solve; the analysis of one takes as long.
int price(const void* handle, const char* name, gpemu_data_type type, int rows, int columns,
          int blocks, int side) {
  if (!valid_blocks(rows, columns, blocks, side)) {
    return kInvalidValue;
  }
  const bool is_complex = type == GPEMU_TYPE_COMPLEX64 || type == GPEMU_TYPE_COMPLEX128;
  const double entries = 1.0 * blocks * side * side;
  const double dense = 2.0 * rows * side * columns;
  const double operations = (is_complex ? 8.0 : 2.0) * entries * columns;
  const double bytes =
      (entries + dense) * static_cast<double>(gpemu_data_type_bytes(type)) + 4.0 * blocks;
  return entry_of(operations) < kMostWork && entry_of(bytes) < kMostWork
             ? submit_sparse(handle, name, type, entry_of(operations), entry_of(bytes))
             : kInvalidValue;
}

/// As above, and `columns` vectors of `rows` blocks are written, or the transposed matrix.
int run(const void* handle, const char* name, gpemu_data_type type, int rows, int columns,
        int blocks, int side, const void* result, int leading, bool transposed = false) {
  const int64_t length = int64_t{rows} * side;
  const int status = price(handle, name, type, rows, columns, blocks, side);
  return transposed
             ? leave_uncomputed(status, handle, name, type, {result, columns, length, leading})
             : leave_uncomputed(status, handle, name, type, {result, length, columns, leading});
}

int answer_size(const void* handle, int rows, int columns, int blocks, int side, int* bytes) {
  if (find_object<Sparse>(handle) == nullptr) {
    return kNotInitialized;
  }
  const int64_t size = int64_t{16} * rows + 256;  // a flag and a level of each row of blocks
  if (!valid_blocks(rows, columns, blocks, side) || bytes == nullptr || size > INT32_MAX) {
    return kInvalidValue;
  }
  *bytes = static_cast<int>(size);
  return kSuccess;
}

int no_zero_pivot(const void* handle, int* position) {
  if (find_object<Sparse>(handle) == nullptr) {
    return kNotInitialized;
  }
  if (position == nullptr) {
    return kInvalidValue;
  }
  *position = -1;
  return kSuccess;
}

}  // namespace

/// Values are not known, so no pivot counts as zero.
GPEMU_SHIM_EXPORT int cusparseXbsrsv2_zeroPivot(void* handle, void*, int* position) {
  return no_zero_pivot(handle, position);
}
GPEMU_SHIM_EXPORT int cusparseXbsrsm2_zeroPivot(void* handle, void*, int* position) {
  return no_zero_pivot(handle, position);
}

#define GPEMU_BLOCK(L, T)                                                                          \
  GPEMU_SHIM_EXPORT int cusparse##L##bsrmv(                                                        \
      void* handle, int, int, int rows, int inner, int blocks, const void*, const void*,           \
      const void*, const int*, const int*, int side, const void*, const void*, void* y) {          \
    return inner < 0 ? kInvalidValue                                                               \
                     : run(handle, "cusparse" #L "bsrmv", T, rows, 1, blocks, side, y, 1);         \
  }                                                                                                \
  GPEMU_SHIM_EXPORT int cusparse##L##bsrmm(void* handle, int, int, int, int rows, int columns,     \
                                           int inner, int blocks, const void*, const void*,        \
                                           const void*, const int*, const int*, int side,          \
                                           const void*, int, const void*, void* c, int ldc) {      \
    return inner < 0 ? kInvalidValue                                                               \
                     : run(handle, "cusparse" #L "bsrmm", T, rows, columns, blocks, side, c, ldc); \
  }                                                                                                \
  GPEMU_SHIM_EXPORT int cusparse##L##bsrsv2_bufferSize(void* handle, int, int, int rows,           \
                                                       int blocks, const void*, void*, const int*, \
                                                       const int*, int side, void*, int* bytes) {  \
    return answer_size(handle, rows, 0, blocks, side, bytes);                                      \
  }                                                                                                \
  GPEMU_SHIM_EXPORT int cusparse##L##bsrsv2_analysis(void* handle, int, int, int rows, int blocks, \
                                                     const void*, const void*, const int*,         \
                                                     const int*, int side, void*, int, void*) {    \
    return price(handle, "cusparse" #L "bsrsv2_analysis", T, rows, 1, blocks, side);               \
  }                                                                                                \
  GPEMU_SHIM_EXPORT int cusparse##L##bsrsv2_solve(                                                 \
      void* handle, int, int, int rows, int blocks, const void*, const void*, const void*,         \
      const int*, const int*, int side, void*, const void*, void* x, int, void*) {                 \
    return run(handle, "cusparse" #L "bsrsv2_solve", T, rows, 1, blocks, side, x, 1);              \
  }                                                                                                \
  GPEMU_SHIM_EXPORT int cusparse##L##bsrsm2_bufferSize(                                            \
      void* handle, int, int, int, int rows, int columns, int blocks, const void*, void*,          \
      const int*, const int*, int side, void*, int* bytes) {                                       \
    return answer_size(handle, rows, columns, blocks, side, bytes);                                \
  }                                                                                                \
  GPEMU_SHIM_EXPORT int cusparse##L##bsrsm2_analysis(                                              \
      void* handle, int, int, int, int rows, int columns, int blocks, const void*, const void*,    \
      const int*, const int*, int side, void*, int, void*) {                                       \
    return price(handle, "cusparse" #L "bsrsm2_analysis", T, rows, columns, blocks, side);         \
  }                                                                                                \
  GPEMU_SHIM_EXPORT int cusparse##L##bsrsm2_solve(                                                 \
      void* handle, int, int, int transpose, int rows, int columns, int blocks, const void*,       \
      const void*, const void*, const int*, const int*, int side, void*, const void*, int,         \
      void* x, int ldx, int, void*) {                                                              \
    return run(handle, "cusparse" #L "bsrsm2_solve", T, rows, columns, blocks, side, x, ldx,       \
               transpose != 0);                                                                    \
  }
GPEMU_BLOCK(S, GPEMU_TYPE_FP32)
GPEMU_BLOCK(D, GPEMU_TYPE_FP64)
GPEMU_BLOCK(C, GPEMU_TYPE_COMPLEX64)
GPEMU_BLOCK(Z, GPEMU_TYPE_COMPLEX128)
