// SPDX-License-Identifier: Apache-2.0
// General products, also of batches and of strided batches.
#include "cublas.hpp"

namespace {

struct Product {
  int transpose_a, transpose_b;
  int64_t m, n, k;
  int64_t leading_a, leading_b, leading_c;
  int64_t batch;
};

/// Where a product's operands lie; the strides are elements from one product to the next.
struct Operands {
  const void *alpha, *a, *b, *beta;
  const void* c;
  int64_t stride_a, stride_b, stride_c;
};

bool is_valid(const Product& p, const Operands& o) {
  return o.alpha != nullptr && o.beta != nullptr && is_transpose(p.transpose_a) &&
         is_transpose(p.transpose_b) && p.m >= 0 && p.n >= 0 && p.k >= 0 && p.batch >= 0 &&
         holds(p.leading_a, p.transpose_a == kNone ? p.m : p.k) &&
         holds(p.leading_b, p.transpose_b == kNone ? p.k : p.n) && holds(p.leading_c, p.m);
}

/// Types of a call: of A and B, of C, and of alpha and beta.
struct Types {
  gpemu_data_type operands, result, scalars;
};

/// Declares what the call writes to C.
int write_product(const char* function, const Context& context, const Product& p, const Operands& o,
                  const Types& types, bool arrays) {
  gpemu_cuda_product product{};
  product.arrays = arrays ? 1 : 0;
  product.a = address_of(o.a);
  product.b = address_of(o.b);
  product.c = address_of(o.c);
  product.m = p.m;
  product.n = p.n;
  product.k = p.k;
  product.batch = p.batch;
  product.leading_a = p.leading_a;
  product.leading_b = p.leading_b;
  product.leading_c = p.leading_c;
  product.stride_a = o.stride_a;
  product.stride_b = o.stride_b;
  product.stride_c = o.stride_c;
  product.transpose_a = p.transpose_a;
  product.transpose_b = p.transpose_b;
  product.type = types.operands;
  product.type_c = types.result;
  product.known = read_scalar(context, types.scalars, o.alpha, &product.alpha) &&
                          read_scalar(context, types.scalars, o.beta, &product.beta)
                      ? 1
                      : 0;
  return status_of(gpemu_cuda_multiply(&product, function, context.stream));
}

/// C = alpha * op(A) * op(B) + beta * C.
int multiply(const char* function, const Context& context, const Product& p, const Operands& o,
             gpemu_data_type type, gpemu_data_type compute_type, bool arrays) {
  if (!is_valid(p, o)) {
    return kInvalidValue;
  }
  if (p.m == 0 || p.n == 0 || p.batch == 0) {
    return kSuccess;
  }
  if (p.k == 0) {  // C is only scaled by beta
    const int64_t elements = entry_of(times(p.batch, p.m, p.n));
    return submit(context, {function, GPEMU_OPERATION_ELEMENTWISE, type, type},
                  {elements, elements, 1});
  }
  // Rows that begin at multiples of 16 bytes are read by wider instructions.
  constexpr int64_t kWidest = 16;
  const int64_t each = gpemu_data_type_bytes(type);
  const bool aligned = p.leading_a * each % kWidest == 0 && p.leading_b * each % kWidest == 0 &&
                       p.leading_c * each % kWidest == 0;
  const gpemu_access access = aligned ? GPEMU_ACCESS_CONTIGUOUS : GPEMU_ACCESS_STRIDED;
  const bool shares = p.batch > 1 && !arrays;
  const bool along_sum = p.transpose_a != kNone && p.transpose_b == kNone;
  return submit(context, {function, GPEMU_OPERATION_MATMUL, type, compute_type, access},
                {p.batch, p.m, p.n, p.k, shares && o.stride_a == 0 ? 1 : 0,
                 shares && o.stride_b == 0 ? 1 : 0, along_sum ? 1 : 0});
}

int typed_product(const char* function, const void* handle, const Product& product,
                  const Operands& operands, gpemu_data_type type, bool arrays = false) {
  const Context* const context = find_object<Context>(handle);
  if (context == nullptr) {
    return kNotInitialized;
  }
  const bool tf32 = type == GPEMU_TYPE_FP32 && allows_tf32(*context);
  const int status =
      multiply(function, *context, product, operands, type, tf32 ? GPEMU_TYPE_TF32 : type, arrays);
  if (status != kSuccess) {
    return status;
  }
  const Types types{type, type, type};
  return write_product(function, *context, product, operands, types, arrays);
}

/// The type of alpha and beta.
gpemu_data_type scalar_type(int compute, gpemu_data_type operands) {
  if (compute == kCompute64F || compute == kCompute64FPedantic) {
    return operands == GPEMU_TYPE_FP64 ? GPEMU_TYPE_FP64 : GPEMU_TYPE_UNKNOWN;
  }
  if (compute < kCompute32F || compute == kCompute32I || compute == kCompute32IPedantic ||
      operands == GPEMU_TYPE_COMPLEX64) {
    return GPEMU_TYPE_UNKNOWN;
  }
  return GPEMU_TYPE_FP32;
}

/// The types of the ...Ex functions: those of A, B and C, and a cublasComputeType_t.
struct NumberedTypes {
  int a, b, c, compute;
};

/// The ...Ex functions: types by number.
int mixed_product(const char* function, const void* handle, const Product& product,
                  const Operands& places, const NumberedTypes& types, bool arrays = false) {
  const Context* const context = find_object<Context>(handle);
  if (context == nullptr) {
    return kNotInitialized;
  }
  const gpemu_data_type operands = type_of_cuda(types.a);
  if (operands == GPEMU_TYPE_UNKNOWN || type_of_cuda(types.b) == GPEMU_TYPE_UNKNOWN ||
      type_of_cuda(types.c) == GPEMU_TYPE_UNKNOWN) {
    return kNotSupported;
  }
  const int status =
      multiply(function, *context, product, places, operands,
               compute_type_of_cublas(types.compute, operands, allows_tf32(*context)), arrays);
  if (status != kSuccess) {
    return status;
  }
  const Types of{operands, type_of_cuda(types.c), scalar_type(types.compute, operands)};
  return write_product(function, *context, product, places, of, arrays);
}

}  // namespace

#define GEMM(name, type, Int)                                                                      \
  GPEMU_SHIM_EXPORT int name(void* handle, int ta, int tb, Int m, Int n, Int k, const void* alpha, \
                             const void* a, Int lda, const void* b, Int ldb, const void* beta,     \
                             void* c, Int ldc) {                                                   \
    return typed_product(#name, handle, {ta, tb, m, n, k, lda, ldb, ldc, 1},                       \
                         {alpha, a, b, beta, c, 0, 0, 0}, type);                                   \
  }
GPEMU_BLAS_ALL(GEMM, gemm_v2)
GPEMU_BLAS_BOTH(GEMM, cublasHgemm, GPEMU_TYPE_FP16)
GPEMU_BLAS_COMPLEX(GEMM, gemm3m)

#define GEMM_BATCHED(name, type, Int)                                                              \
  GPEMU_SHIM_EXPORT int name(void* handle, int ta, int tb, Int m, Int n, Int k, const void* alpha, \
                             const void* const* a, Int lda, const void* const* b, Int ldb,         \
                             const void* beta, void* const* c, Int ldc, Int batch) {               \
    return typed_product(#name, handle, {ta, tb, m, n, k, lda, ldb, ldc, batch},                   \
                         {alpha, a, b, beta, c, 0, 0, 0}, type, true);                             \
  }
GPEMU_BLAS_ALL(GEMM_BATCHED, gemmBatched)
GPEMU_BLAS_BOTH(GEMM_BATCHED, cublasHgemmBatched, GPEMU_TYPE_FP16)

#define GEMM_STRIDED(name, type, Int)                                                              \
  GPEMU_SHIM_EXPORT int name(void* handle, int ta, int tb, Int m, Int n, Int k, const void* alpha, \
                             const void* a, Int lda, long long stride_a, const void* b, Int ldb,   \
                             long long stride_b, const void* beta, void* c, Int ldc,               \
                             long long stride_c, Int batch) {                                      \
    return typed_product(#name, handle, {ta, tb, m, n, k, lda, ldb, ldc, batch},                   \
                         {alpha, a, b, beta, c, stride_a, stride_b, stride_c}, type);              \
  }
GPEMU_BLAS_ALL(GEMM_STRIDED, gemmStridedBatched)
GPEMU_BLAS_BOTH(GEMM_STRIDED, cublasHgemmStridedBatched, GPEMU_TYPE_FP16)

#define GEMM_TYPED_EX(name, type, Int)                                                             \
  GPEMU_SHIM_EXPORT int name(void* handle, int ta, int tb, Int m, Int n, Int k, const void* alpha, \
                             const void* a, int type_a, Int lda, const void* b, int type_b,        \
                             Int ldb, const void* beta, void* c, int type_c, Int ldc) {            \
    return mixed_product(#name, handle, {ta, tb, m, n, k, lda, ldb, ldc, 1},                       \
                         {alpha, a, b, beta, c, 0, 0, 0}, {type_a, type_b, type_c, kCompute32F});  \
  }
GPEMU_BLAS_BOTH(GEMM_TYPED_EX, cublasSgemmEx, GPEMU_TYPE_FP32)
GPEMU_BLAS_BOTH(GEMM_TYPED_EX, cublasCgemmEx, GPEMU_TYPE_COMPLEX64)

#define GEMM_EX(name, type, Int)                                                                   \
  GPEMU_SHIM_EXPORT int name(void* handle, int ta, int tb, Int m, Int n, Int k, const void* alpha, \
                             const void* a, int type_a, Int lda, const void* b, int type_b,        \
                             Int ldb, const void* beta, void* c, int type_c, Int ldc, int compute, \
                             int /*algo*/) {                                                       \
    return mixed_product(#name, handle, {ta, tb, m, n, k, lda, ldb, ldc, 1},                       \
                         {alpha, a, b, beta, c, 0, 0, 0}, {type_a, type_b, type_c, compute});      \
  }
GPEMU_BLAS_BOTH(GEMM_EX, cublasGemmEx, GPEMU_TYPE_UNKNOWN)

#define GEMM_BATCHED_EX(name, type, Int)                                                           \
  GPEMU_SHIM_EXPORT int name(void* handle, int ta, int tb, Int m, Int n, Int k, const void* alpha, \
                             const void* const* a, int type_a, Int lda, const void* const* b,      \
                             int type_b, Int ldb, const void* beta, void* const* c, int type_c,    \
                             Int ldc, Int batch, int compute, int /*algo*/) {                      \
    return mixed_product(#name, handle, {ta, tb, m, n, k, lda, ldb, ldc, batch},                   \
                         {alpha, a, b, beta, c, 0, 0, 0}, {type_a, type_b, type_c, compute},       \
                         true);                                                                    \
  }
GPEMU_BLAS_BOTH(GEMM_BATCHED_EX, cublasGemmBatchedEx, GPEMU_TYPE_UNKNOWN)

#define GEMM_STRIDED_EX(name, type, Int)                                                           \
  GPEMU_SHIM_EXPORT int name(void* handle, int ta, int tb, Int m, Int n, Int k, const void* alpha, \
                             const void* a, int type_a, Int lda, long long stride_a,               \
                             const void* b, int type_b, Int ldb, long long stride_b,               \
                             const void* beta, void* c, int type_c, Int ldc, long long stride_c,   \
                             Int batch, int compute, int /*algo*/) {                               \
    return mixed_product(#name, handle, {ta, tb, m, n, k, lda, ldb, ldc, batch},                   \
                         {alpha, a, b, beta, c, stride_a, stride_b, stride_c},                     \
                         {type_a, type_b, type_c, compute});                                       \
  }
GPEMU_BLAS_BOTH(GEMM_STRIDED_EX, cublasGemmStridedBatchedEx, GPEMU_TYPE_UNKNOWN)
