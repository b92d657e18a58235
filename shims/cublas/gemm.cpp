// SPDX-License-Identifier: Apache-2.0
#include "blas.hpp"

namespace {

struct Product {
  int transpose_a, transpose_b;
  int64_t m, n, k;
  int64_t leading_a, leading_b, leading_c;
  int64_t batch;
};

bool is_valid(const Product& p) {
  return is_transpose(p.transpose_a) && is_transpose(p.transpose_b) && p.m >= 0 && p.n >= 0 &&
         p.k >= 0 && p.batch >= 0 && holds(p.leading_a, p.transpose_a == kNone ? p.m : p.k) &&
         holds(p.leading_b, p.transpose_b == kNone ? p.k : p.n) && holds(p.leading_c, p.m);
}

/// C = alpha * op(A) * op(B) + beta * C.
int multiply(const char* function, const Context& context, const Product& p, gpemu_data_type type,
             gpemu_data_type compute_type) {
  if (!is_valid(p)) {
    return kInvalidValue;
  }
  if (p.m == 0 || p.n == 0 || p.batch == 0) {
    return kSuccess;
  }
  if (p.k == 0) {  // C is scaled by beta, no more
    const int64_t elements = p.batch * p.m * p.n;
    return submit(context, {function, GPEMU_OPERATION_ELEMENTWISE, type, type},
                  {elements, elements, 1});
  }
  return submit(context, {function, GPEMU_OPERATION_MATMUL, type, compute_type},
                {p.batch, p.m, p.n, p.k});
}

int typed_product(const char* function, const void* handle, const Product& product,
                  gpemu_data_type type) {
  const Context* const context = context_of(handle);
  if (context == nullptr) {
    return kNotInitialized;
  }
  const bool tf32 = type == GPEMU_TYPE_FP32 && allows_tf32(*context);
  return multiply(function, *context, product, type, tf32 ? GPEMU_TYPE_TF32 : type);
}

/// The ...Ex functions: types by number. `compute` is a cublasComputeType_t.
int mixed_product(const char* function, const void* handle, const Product& product,
                  const int (&types)[3], int compute) {
  const Context* const context = context_of(handle);
  if (context == nullptr) {
    return kNotInitialized;
  }
  const gpemu_data_type operands = type_of_cuda(types[0]);
  if (operands == GPEMU_TYPE_UNKNOWN || type_of_cuda(types[1]) == GPEMU_TYPE_UNKNOWN ||
      type_of_cuda(types[2]) == GPEMU_TYPE_UNKNOWN) {
    return kNotSupported;
  }
  return multiply(function, *context, product, operands,
                  compute_type_of_cublas(compute, operands, allows_tf32(*context)));
}

constexpr int kCompute32F = 68;  // CUBLAS_COMPUTE_32F

}  // namespace

#define GEMM(name, type, Int)                                                                      \
  GPEMU_SHIM_EXPORT int name(void* handle, int ta, int tb, Int m, Int n, Int k,                    \
                             const void* /*alpha*/, const void* /*a*/, Int lda, const void* /*b*/, \
                             Int ldb, const void* /*beta*/, void* /*c*/, Int ldc) {                \
    return typed_product(#name, handle, {ta, tb, m, n, k, lda, ldb, ldc, 1}, type);                \
  }
GPEMU_BLAS_ALL(GEMM, gemm_v2)
GPEMU_BLAS_BOTH(GEMM, cublasHgemm, GPEMU_TYPE_FP16)
GPEMU_BLAS_COMPLEX(GEMM, gemm3m)

#define GEMM_BATCHED(name, type, Int)                                                   \
  GPEMU_SHIM_EXPORT int name(void* handle, int ta, int tb, Int m, Int n, Int k,         \
                             const void* /*alpha*/, const void* const* /*a*/, Int lda,  \
                             const void* const* /*b*/, Int ldb, const void* /*beta*/,   \
                             void* const* /*c*/, Int ldc, Int batch) {                  \
    return typed_product(#name, handle, {ta, tb, m, n, k, lda, ldb, ldc, batch}, type); \
  }
GPEMU_BLAS_ALL(GEMM_BATCHED, gemmBatched)
GPEMU_BLAS_BOTH(GEMM_BATCHED, cublasHgemmBatched, GPEMU_TYPE_FP16)

#define GEMM_STRIDED(name, type, Int)                                                              \
  GPEMU_SHIM_EXPORT int name(                                                                      \
      void* handle, int ta, int tb, Int m, Int n, Int k, const void* /*alpha*/, const void* /*a*/, \
      Int lda, long long /*stride_a*/, const void* /*b*/, Int ldb, long long /*stride_b*/,         \
      const void* /*beta*/, void* /*c*/, Int ldc, long long /*stride_c*/, Int batch) {             \
    return typed_product(#name, handle, {ta, tb, m, n, k, lda, ldb, ldc, batch}, type);            \
  }
GPEMU_BLAS_ALL(GEMM_STRIDED, gemmStridedBatched)
GPEMU_BLAS_BOTH(GEMM_STRIDED, cublasHgemmStridedBatched, GPEMU_TYPE_FP16)

#define GEMM_TYPED_EX(name, type, Int)                                                      \
  GPEMU_SHIM_EXPORT int name(void* handle, int ta, int tb, Int m, Int n, Int k,             \
                             const void* /*alpha*/, const void* /*a*/, int type_a, Int lda, \
                             const void* /*b*/, int type_b, Int ldb, const void* /*beta*/,  \
                             void* /*c*/, int type_c, Int ldc) {                            \
    return mixed_product(#name, handle, {ta, tb, m, n, k, lda, ldb, ldc, 1},                \
                         {type_a, type_b, type_c}, kCompute32F);                            \
  }
GPEMU_BLAS_BOTH(GEMM_TYPED_EX, cublasSgemmEx, GPEMU_TYPE_FP32)
GPEMU_BLAS_BOTH(GEMM_TYPED_EX, cublasCgemmEx, GPEMU_TYPE_COMPLEX64)

#define GEMM_EX(name, type, Int)                                                            \
  GPEMU_SHIM_EXPORT int name(void* handle, int ta, int tb, Int m, Int n, Int k,             \
                             const void* /*alpha*/, const void* /*a*/, int type_a, Int lda, \
                             const void* /*b*/, int type_b, Int ldb, const void* /*beta*/,  \
                             void* /*c*/, int type_c, Int ldc, int compute, int /*algo*/) { \
    return mixed_product(#name, handle, {ta, tb, m, n, k, lda, ldb, ldc, 1},                \
                         {type_a, type_b, type_c}, compute);                                \
  }
GPEMU_BLAS_BOTH(GEMM_EX, cublasGemmEx, GPEMU_TYPE_UNKNOWN)

#define GEMM_BATCHED_EX(name, type, Int)                                                           \
  GPEMU_SHIM_EXPORT int name(void* handle, int ta, int tb, Int m, Int n, Int k,                    \
                             const void* /*alpha*/, const void* const* /*a*/, int type_a, Int lda, \
                             const void* const* /*b*/, int type_b, Int ldb, const void* /*beta*/,  \
                             void* const* /*c*/, int type_c, Int ldc, Int batch, int compute,      \
                             int /*algo*/) {                                                       \
    return mixed_product(#name, handle, {ta, tb, m, n, k, lda, ldb, ldc, batch},                   \
                         {type_a, type_b, type_c}, compute);                                       \
  }
GPEMU_BLAS_BOTH(GEMM_BATCHED_EX, cublasGemmBatchedEx, GPEMU_TYPE_UNKNOWN)

#define GEMM_STRIDED_EX(name, type, Int)                                                           \
  GPEMU_SHIM_EXPORT int name(                                                                      \
      void* handle, int ta, int tb, Int m, Int n, Int k, const void* /*alpha*/, const void* /*a*/, \
      int type_a, Int lda, long long /*stride_a*/, const void* /*b*/, int type_b, Int ldb,         \
      long long /*stride_b*/, const void* /*beta*/, void* /*c*/, int type_c, Int ldc,              \
      long long /*stride_c*/, Int batch, int compute, int /*algo*/) {                              \
    return mixed_product(#name, handle, {ta, tb, m, n, k, lda, ldb, ldc, batch},                   \
                         {type_a, type_b, type_c}, compute);                                       \
  }
GPEMU_BLAS_BOTH(GEMM_STRIDED_EX, cublasGemmStridedBatchedEx, GPEMU_TYPE_UNKNOWN)
