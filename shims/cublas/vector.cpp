// SPDX-License-Identifier: Apache-2.0
// Level 1: vectors. Values are not computed; results that the host reads are 0.
#include "cublas.hpp"

namespace {

/// Arithmetic on vectors: elements read, written and operations each, in units of n.
struct PerElement {
  int64_t read, written, operations;
};

/// Where a call writes its result.
struct Result {
  void* address;
  int64_t bytes;
};

/// A vector that is written, and the distance between its elements.
struct WrittenVector {
  void* elements;
  int64_t distance;
  Content content = Content::kUpdated;
};

int elementwise(const char* function, const void* handle, int64_t n, gpemu_data_type type,
                PerElement per_element, std::initializer_list<WrittenVector> written) {
  const Context* const context = find_object<Context>(handle);
  if (context == nullptr) {
    return kNotInitialized;
  }
  if (n <= 0) {
    return kSuccess;  // as in BLAS
  }
  int status = submit(*context, {function, GPEMU_OPERATION_ELEMENTWISE, type, type},
                      {entry_of(times(n, per_element.read)),
                       entry_of(times(n, per_element.written)), per_element.operations});
  for (const WrittenVector& vector : written) {
    status = leave_uncomputed(status, *context, function, type,
                              {{vector.elements, 1, n, vector.distance, vector.content}});
  }
  return status;
}

/// `value`: the result of the reduction of `elements`; null means 0.
int reduction(const char* function, const void* handle, double elements, gpemu_data_type type,
              Result result, const void* value = nullptr) {
  const Context* const context = find_object<Context>(handle);
  if (context == nullptr) {
    return kNotInitialized;
  }
  if (result.address == nullptr) {
    return kInvalidValue;
  }
  if (elements > 0) {
    const Work work{function, GPEMU_OPERATION_REDUCTION, type, type};
    if (const int status = submit(*context, work, {entry_of(elements), 1}); status != kSuccess) {
      return status;
    }
  }
  return value == nullptr || elements <= 0
             ? put_zero(*context, result.address, result.bytes)
             : put_result(*context, result.address, value, result.bytes);
}

/// The types of cublasDotEx, by number.
struct DotTypes {
  int x, y, result, execution;
};

int typed_dot(const char* function, const void* handle, int64_t n, const DotTypes& types,
              void* result) {
  if (find_object<Context>(handle) == nullptr) {
    return kNotInitialized;
  }
  for (const int type : {types.x, types.y, types.result, types.execution}) {
    if (type_of_cuda(type) == GPEMU_TYPE_UNKNOWN) {
      return kNotSupported;
    }
  }
  return reduction(function, handle, times(2, n), type_of_cuda(types.x),
                   {result, gpemu_data_type_bytes(type_of_cuda(types.result))});
}

constexpr gpemu_data_type real_of(gpemu_data_type type) {
  if (type == GPEMU_TYPE_COMPLEX64) {
    return GPEMU_TYPE_FP32;
  }
  return type == GPEMU_TYPE_COMPLEX128 ? GPEMU_TYPE_FP64 : type;
}

/// Rotations are made from a few scalars; each becomes 0.
int scalars(const void* handle, gpemu_data_type type, std::initializer_list<void*> results) {
  const Context* const context = find_object<Context>(handle);
  if (context == nullptr) {
    return kNotInitialized;
  }
  for (void* const result : results) {
    if (result == nullptr) {
      return kInvalidValue;
    }
  }
  for (void* const result : results) {
    if (const int status = put_zero(*context, result, gpemu_data_type_bytes(type));
        status != kSuccess) {
      return status;
    }
  }
  return kSuccess;
}

}  // namespace

#define AXPY(name, type, Int)                                                               \
  GPEMU_SHIM_EXPORT int name(void* handle, Int n, const void* /*alpha*/, const void* /*x*/, \
                             Int /*incx*/, void* y, Int incy) {                             \
    return elementwise(#name, handle, n, type, {2, 1, 2}, {{y, incy}});                     \
  }
GPEMU_BLAS_ALL(AXPY, axpy_v2)

#define SCAL(name, type, Int)                                                                 \
  GPEMU_SHIM_EXPORT int name(void* handle, Int n, const void* /*alpha*/, void* x, Int incx) { \
    return elementwise(#name, handle, n, type, {1, 1, 1}, {{x, incx}});                       \
  }
GPEMU_BLAS_ALL(SCAL, scal_v2)
GPEMU_BLAS_BOTH(SCAL, cublasCsscal_v2, GPEMU_TYPE_COMPLEX64)
GPEMU_BLAS_BOTH(SCAL, cublasZdscal_v2, GPEMU_TYPE_COMPLEX128)

#define COPY(name, type, Int)                                                                  \
  GPEMU_SHIM_EXPORT int name(void* handle, Int n, const void* /*x*/, Int /*incx*/, void* y,    \
                             Int incy) {                                                       \
    return elementwise(#name, handle, n, type, {1, 1, 0}, {{y, incy, Content::kOverwritten}}); \
  }
GPEMU_BLAS_ALL(COPY, copy_v2)

#define SWAP(name, type, Int)                                                             \
  GPEMU_SHIM_EXPORT int name(void* handle, Int n, void* x, Int incx, void* y, Int incy) { \
    return elementwise(#name, handle, n, type, {2, 2, 0}, {{x, incx}, {y, incy}});        \
  }
GPEMU_BLAS_ALL(SWAP, swap_v2)

#define ROT(name, type, Int)                                                            \
  GPEMU_SHIM_EXPORT int name(void* handle, Int n, void* x, Int incx, void* y, Int incy, \
                             const void* /*c*/, const void* /*s*/) {                    \
    return elementwise(#name, handle, n, type, {2, 2, 3}, {{x, incx}, {y, incy}});      \
  }
GPEMU_BLAS_ALL(ROT, rot_v2)
GPEMU_BLAS_BOTH(ROT, cublasCsrot_v2, GPEMU_TYPE_COMPLEX64)
GPEMU_BLAS_BOTH(ROT, cublasZdrot_v2, GPEMU_TYPE_COMPLEX128)

#define ROTM(name, type, Int)                                                           \
  GPEMU_SHIM_EXPORT int name(void* handle, Int n, void* x, Int incx, void* y, Int incy, \
                             const void* /*parameters*/) {                              \
    return elementwise(#name, handle, n, type, {2, 2, 3}, {{x, incx}, {y, incy}});      \
  }
GPEMU_BLAS_REAL(ROTM, rotm_v2)

#define ROTG(name, type)                                                         \
  GPEMU_SHIM_EXPORT int name(void* handle, void* a, void* b, void* c, void* s) { \
    return scalars(handle, real_of(type), {a, b, c, s});                         \
  }
ROTG(cublasSrotg_v2, GPEMU_TYPE_FP32)
ROTG(cublasDrotg_v2, GPEMU_TYPE_FP64)
ROTG(cublasCrotg_v2, GPEMU_TYPE_COMPLEX64)
ROTG(cublasZrotg_v2, GPEMU_TYPE_COMPLEX128)

#define ROTMG(name, type)                                                                \
  GPEMU_SHIM_EXPORT int name(void* handle, void* d1, void* d2, void* x1, const void* y1, \
                             void* parameters) {                                         \
    return y1 == nullptr ? static_cast<int>(kInvalidValue)                               \
                         : scalars(handle, type, {d1, d2, x1, parameters});              \
  }
ROTMG(cublasSrotmg_v2, GPEMU_TYPE_FP32)
ROTMG(cublasDrotmg_v2, GPEMU_TYPE_FP64)

#define DOT(name, type, Int)                                                                   \
  GPEMU_SHIM_EXPORT int name(void* handle, Int n, const void* /*x*/, Int /*incx*/,             \
                             const void* /*y*/, Int /*incy*/, void* result) {                  \
    return reduction(#name, handle, times(2, n), type, {result, gpemu_data_type_bytes(type)}); \
  }
GPEMU_BLAS_REAL(DOT, dot_v2)
GPEMU_BLAS_COMPLEX(DOT, dotu_v2)
GPEMU_BLAS_COMPLEX(DOT, dotc_v2)

// Norms and sums of moduli are real.
#define NORM(name, type, Int)                                                                      \
  GPEMU_SHIM_EXPORT int name(void* handle, Int n, const void* /*x*/, Int /*incx*/, void* result) { \
    return reduction(#name, handle, times(n), type,                                                \
                     {result, gpemu_data_type_bytes(real_of(type))});                              \
  }
GPEMU_BLAS_REAL(NORM, nrm2_v2)
GPEMU_BLAS_BOTH(NORM, cublasScnrm2_v2, GPEMU_TYPE_COMPLEX64)
GPEMU_BLAS_BOTH(NORM, cublasDznrm2_v2, GPEMU_TYPE_COMPLEX128)
GPEMU_BLAS_REAL(NORM, asum_v2)
GPEMU_BLAS_BOTH(NORM, cublasScasum_v2, GPEMU_TYPE_COMPLEX64)
GPEMU_BLAS_BOTH(NORM, cublasDzasum_v2, GPEMU_TYPE_COMPLEX128)

// Indices begin at 1, and among zeros the first is both largest and smallest.
#define INDEX(name, type, Int)                                                                    \
  GPEMU_SHIM_EXPORT int name(void* handle, Int n, const void* /*x*/, Int /*incx*/, Int* result) { \
    const Int first = 1;                                                                          \
    return reduction(#name, handle, times(n), type, {result, sizeof(Int)}, &first);               \
  }
GPEMU_BLAS_BOTH(INDEX, cublasIsamax_v2, GPEMU_TYPE_FP32)
GPEMU_BLAS_BOTH(INDEX, cublasIdamax_v2, GPEMU_TYPE_FP64)
GPEMU_BLAS_BOTH(INDEX, cublasIcamax_v2, GPEMU_TYPE_COMPLEX64)
GPEMU_BLAS_BOTH(INDEX, cublasIzamax_v2, GPEMU_TYPE_COMPLEX128)
GPEMU_BLAS_BOTH(INDEX, cublasIsamin_v2, GPEMU_TYPE_FP32)
GPEMU_BLAS_BOTH(INDEX, cublasIdamin_v2, GPEMU_TYPE_FP64)
GPEMU_BLAS_BOTH(INDEX, cublasIcamin_v2, GPEMU_TYPE_COMPLEX64)
GPEMU_BLAS_BOTH(INDEX, cublasIzamin_v2, GPEMU_TYPE_COMPLEX128)

#define DOT_EX(name, type, Int)                                                                \
  GPEMU_SHIM_EXPORT int name(void* handle, Int n, const void* /*x*/, int x_type, Int /*incx*/, \
                             const void* /*y*/, int y_type, Int /*incy*/, void* result,        \
                             int result_type, int execution_type) {                            \
    return typed_dot(#name, handle, n, {x_type, y_type, result_type, execution_type}, result); \
  }
GPEMU_BLAS_BOTH(DOT_EX, cublasDotEx, GPEMU_TYPE_UNKNOWN)
GPEMU_BLAS_BOTH(DOT_EX, cublasDotcEx, GPEMU_TYPE_UNKNOWN)
