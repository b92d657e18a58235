// SPDX-License-Identifier: Apache-2.0
// Copies of vectors and matrices between host and device, and the legacy interface's functions
// that do not return a status.
#include "abi.hpp"
#include "cublas.hpp"

namespace {

struct Side {
  const void* address;
  int64_t leading;  // elements from column to column
};

/// Copies columns of `rows` elements.
int copy_columns(int64_t rows, int64_t columns, int64_t element_bytes, Side from, Side to,
                 gpemu_cuda_copy_kind kind, gpemu_cuda_stream_handle stream, int32_t blocking) {
  if (rows < 0 || columns < 0 || element_bytes <= 0 || from.leading <= 0 || to.leading <= 0 ||
      from.leading < rows || to.leading < rows) {
    return kInvalidValue;
  }
  if (rows == 0 || columns == 0) {
    return kSuccess;
  }
  gpemu_cuda_copy copy{};
  if (!count_bytes(rows, element_bytes, &copy.width_bytes) ||
      !count_bytes(to.leading, element_bytes, &copy.destination_pitch) ||
      !count_bytes(from.leading, element_bytes, &copy.source_pitch)) {
    return kInvalidValue;
  }
  copy.destination = address_of(to.address);
  copy.source = address_of(from.address);
  copy.height = static_cast<uint64_t>(columns);
  copy.depth = 1;
  copy.kind = kind;
  const auto status = gpemu_cuda_copy_memory(&copy, stream, blocking);
  return status == GPEMU_CUDA_ERROR_INVALID_VALUE ? kMappingError : status_of(status);
}

}  // namespace

// A vector is a matrix of columns of one element.
#define COPIES(word, kind, Int, suffix)                                                          \
  GPEMU_SHIM_EXPORT int cublas##word##Vector##suffix(Int n, Int bytes, const void* x, Int incx,  \
                                                     void* y, Int incy) {                        \
    return copy_columns(1, n, bytes, {x, incx}, {y, incy}, kind, nullptr, 1);                    \
  }                                                                                              \
  GPEMU_SHIM_EXPORT int cublas##word##VectorAsync##suffix(Int n, Int bytes, const void* x,       \
                                                          Int incx, void* y, Int incy,           \
                                                          gpemu_cuda_stream_handle stream) {     \
    return copy_columns(1, n, bytes, {x, incx}, {y, incy}, kind, stream, 0);                     \
  }                                                                                              \
  GPEMU_SHIM_EXPORT int cublas##word##Matrix##suffix(Int rows, Int columns, Int bytes,           \
                                                     const void* a, Int lda, void* b, Int ldb) { \
    return copy_columns(rows, columns, bytes, {a, lda}, {b, ldb}, kind, nullptr, 1);             \
  }                                                                                              \
  GPEMU_SHIM_EXPORT int cublas##word##MatrixAsync##suffix(                                       \
      Int rows, Int columns, Int bytes, const void* a, Int lda, void* b, Int ldb,                \
      gpemu_cuda_stream_handle stream) {                                                         \
    return copy_columns(rows, columns, bytes, {a, lda}, {b, ldb}, kind, stream, 0);              \
  }
COPIES(Set, GPEMU_CUDA_COPY_HOST_TO_DEVICE, int, )
COPIES(Set, GPEMU_CUDA_COPY_HOST_TO_DEVICE, int64_t, _64)
COPIES(Get, GPEMU_CUDA_COPY_DEVICE_TO_HOST, int, )
COPIES(Get, GPEMU_CUDA_COPY_DEVICE_TO_HOST, int64_t, _64)

#define LEGACY(Value, name)                             \
  GPEMU_SHIM_EXPORT Value name() {                      \
    gpemu_cuda_not_supported(GPEMU_SHIM_SONAME, #name); \
    return Value{};                                     \
  }

LEGACY(float, cublasSdot)
LEGACY(double, cublasDdot)
LEGACY(float, cublasSnrm2)
LEGACY(double, cublasDnrm2)
LEGACY(float, cublasScnrm2)
LEGACY(double, cublasDznrm2)
LEGACY(float, cublasSasum)
LEGACY(double, cublasDasum)
LEGACY(float, cublasScasum)
LEGACY(double, cublasDzasum)
LEGACY(FloatComplex, cublasCdotu)
LEGACY(FloatComplex, cublasCdotc)
LEGACY(DoubleComplex, cublasZdotu)
LEGACY(DoubleComplex, cublasZdotc)
