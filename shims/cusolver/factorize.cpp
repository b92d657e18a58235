// SPDX-License-Identifier: Apache-2.0
// Factorisations and solves of dense matrices. The signatures are those of cusolverDn.h, with
// pointers to matrices as void*.
#include <algorithm>

#include "dense.hpp"

namespace {

constexpr int kBlock = 32;

bool valid_transpose(int transpose) {
  return transpose >= 0 && transpose <= kLastOperation;
}

double cube(double n) {
  return n * n * n;
}

DenseWork cholesky(const char* name, gpemu_data_type type, double n, double batch) {
  return {name, type, batch * cube(n) / 3, batch * n * n};
}

// Two triangular solves.
DenseWork solve(const char* name, gpemu_data_type type, double n, double columns, double batch) {
  return {name, type, batch * 2 * n * n * columns, batch * (n * n + 4 * n * columns)};
}

/// Reports that no rows were swapped, unless the caller passes no pivots.
int report_pivots(int status, int* pivots, int count) {
  if (status != kSuccess || pivots == nullptr || count <= 0) {
    return status;
  }
  return write_array(pivots, static_cast<uint64_t>(count),
                     [](uint64_t i) { return static_cast<int>(i) + 1; });
}

}  // namespace

#define GPEMU_FACTORIZE(L, T)                                                                      \
  GPEMU_SHIM_EXPORT int cusolverDn##L##potrf_bufferSize(void* handle, int fill, int n, void*,      \
                                                        int lda, int* size) {                      \
    return valid_fill(fill) && valid_size(n, n, lda)                                               \
               ? answer_work_size(handle, times(kBlock, n), size)                                  \
               : kInvalidValue;                                                                    \
  }                                                                                                \
  GPEMU_SHIM_EXPORT int cusolverDn##L##potrf(void* handle, int fill, int n, void* a, int lda,      \
                                             void*, int, int* info) {                              \
    return valid_fill(fill) && valid_matrix(n, n, a, lda)                                          \
               ? submit_dense(handle, cholesky("cusolverDn" #L "potrf", T, n, 1), info, 1,         \
                              {{a, n, n, lda}})                                                    \
               : kInvalidValue;                                                                    \
  }                                                                                                \
  GPEMU_SHIM_EXPORT int cusolverDn##L##potrs(void* handle, int fill, int n, int columns,           \
                                             const void* a, int lda, void* b, int ldb,             \
                                             int* info) {                                          \
    return valid_fill(fill) && valid_matrix(n, n, a, lda) && valid_matrix(n, columns, b, ldb)      \
               ? submit_dense(handle, solve("cusolverDn" #L "potrs", T, n, columns, 1), info, 1,   \
                              {{b, n, columns, ldb}})                                              \
               : kInvalidValue;                                                                    \
  }                                                                                                \
  GPEMU_SHIM_EXPORT int cusolverDn##L##potrfBatched(void* handle, int fill, int n, void* a,        \
                                                    int lda, int* info, int batch) {               \
    return valid_fill(fill) && valid_matrix(n, n, a, lda) && batch >= 0                            \
               ? leave_batch(                                                                      \
                     submit_dense(handle, cholesky("cusolverDn" #L "potrfBatched", T, n, batch),   \
                                  info, batch, {}),                                                \
                     handle, "cusolverDn" #L "potrfBatched", T, {a, n, n, lda, batch})             \
               : kInvalidValue;                                                                    \
  }                                                                                                \
  GPEMU_SHIM_EXPORT int cusolverDn##L##potrsBatched(void* handle, int fill, int n, int columns,    \
                                                    void* a, int lda, void* b, int ldb, int* info, \
                                                    int batch) {                                   \
    return valid_fill(fill) && valid_matrix(n, n, a, lda) && valid_matrix(n, columns, b, ldb) &&   \
                   batch >= 0                                                                      \
               ? leave_batch(                                                                      \
                     submit_dense(handle,                                                          \
                                  solve("cusolverDn" #L "potrsBatched", T, n, columns, batch),     \
                                  info, 1, {}),                                                    \
                     handle, "cusolverDn" #L "potrsBatched", T, {b, n, columns, ldb, batch})       \
               : kInvalidValue;                                                                    \
  }                                                                                                \
  GPEMU_SHIM_EXPORT int cusolverDn##L##getrf_bufferSize(void* handle, int m, int n, void*,         \
                                                        int lda, int* size) {                      \
    return valid_size(m, n, lda) ? answer_work_size(handle, times(kBlock, std::max(m, n)), size)   \
                                 : kInvalidValue;                                                  \
  }                                                                                                \
  GPEMU_SHIM_EXPORT int cusolverDn##L##getrf(void* handle, int m, int n, void* a, int lda, void*,  \
                                             int* pivots, int* info) {                             \
    return valid_matrix(m, n, a, lda)                                                              \
               ? report_pivots(submit_dense(handle,                                                \
                                            {"cusolverDn" #L "getrf", T,                           \
                                             operations_of_getrf(m, n), 2.0 * m * n},              \
                                            info, 1, {{a, m, n, lda}}),                            \
                               pivots, std::min(m, n))                                             \
               : kInvalidValue;                                                                    \
  }                                                                                                \
  GPEMU_SHIM_EXPORT int cusolverDn##L##getrs(void* handle, int transpose, int n, int columns,      \
                                             const void* a, int lda, const int*, void* b, int ldb, \
                                             int* info) {                                          \
    return valid_transpose(transpose) && valid_matrix(n, n, a, lda) &&                             \
                   valid_matrix(n, columns, b, ldb)                                                \
               ? submit_dense(handle, solve("cusolverDn" #L "getrs", T, n, columns, 1), info, 1,   \
                              {{b, n, columns, ldb}})                                              \
               : kInvalidValue;                                                                    \
  }                                                                                                \
  GPEMU_SHIM_EXPORT int cusolverDn##L##geqrf_bufferSize(void* handle, int m, int n, void*,         \
                                                        int lda, int* size) {                      \
    return valid_size(m, n, lda) ? answer_work_size(handle, times(kBlock, n), size)                \
                                 : kInvalidValue;                                                  \
  }                                                                                                \
  GPEMU_SHIM_EXPORT int cusolverDn##L##geqrf(void* handle, int m, int n, void* a, int lda,         \
                                             void* tau, void*, int, int* info) {                   \
    return valid_matrix(m, n, a, lda) && (tau != nullptr || m == 0 || n == 0)                      \
               ? submit_dense(                                                                     \
                     handle, {"cusolverDn" #L "geqrf", T, operations_of_geqrf(m, n), 2.0 * m * n}, \
                     info, 1, {{a, m, n, lda}, {tau, std::min(m, n), 1, 1}})                       \
               : kInvalidValue;                                                                    \
  }                                                                                                \
  GPEMU_SHIM_EXPORT int cusolverDn##L##sytrf_bufferSize(void* handle, int n, void*, int lda,       \
                                                        int* size) {                               \
    return valid_size(n, n, lda) ? answer_work_size(handle, times(kBlock, n), size)                \
                                 : kInvalidValue;                                                  \
  }                                                                                                \
  GPEMU_SHIM_EXPORT int cusolverDn##L##sytrf(void* handle, int fill, int n, void* a, int lda,      \
                                             int* pivots, void*, int, int* info) {                 \
    return valid_fill(fill) && valid_matrix(n, n, a, lda)                                          \
               ? report_pivots(submit_dense(handle, cholesky("cusolverDn" #L "sytrf", T, n, 1),    \
                                            info, 1, {{a, n, n, lda}}),                            \
                               pivots, n)                                                          \
               : kInvalidValue;                                                                    \
  }
GPEMU_FACTORIZE(S, GPEMU_TYPE_FP32)
GPEMU_FACTORIZE(D, GPEMU_TYPE_FP64)
GPEMU_FACTORIZE(C, GPEMU_TYPE_COMPLEX64)
GPEMU_FACTORIZE(Z, GPEMU_TYPE_COMPLEX128)

// `Q` is or or un: real matrices are orthogonal, complex ones unitary.
#define GPEMU_ORTHOGONAL(L, Q, T)                                                                  \
  GPEMU_SHIM_EXPORT int cusolverDn##L##Q##gqr_bufferSize(                                          \
      void* handle, int m, int n, int k, const void*, int lda, const void*, int* size) {           \
    return valid_size(m, n, lda) && n <= m && k >= 0 && k <= n                                     \
               ? answer_work_size(handle, times(kBlock, n), size)                                  \
               : kInvalidValue;                                                                    \
  }                                                                                                \
  GPEMU_SHIM_EXPORT int cusolverDn##L##Q##gqr(void* handle, int m, int n, int k, void* a, int lda, \
                                              const void* tau, void*, int, int* info) {            \
    return valid_matrix(m, n, a, lda) && n <= m && k >= 0 && k <= n && (tau != nullptr || k == 0)  \
               ? submit_dense(                                                                     \
                     handle,                                                                       \
                     {"cusolverDn" #L#Q "gqr", T, operations_of_orgqr(m, n, k), 2.0 * m * n},      \
                     info, 1, {{a, m, n, lda}})                                                    \
               : kInvalidValue;                                                                    \
  }                                                                                                \
  GPEMU_SHIM_EXPORT int cusolverDn##L##Q##mqr_bufferSize(                                          \
      void* handle, int side, int transpose, int m, int n, int k, const void*, int lda,            \
      const void*, const void*, int ldc, int* size) {                                              \
    const int order = side == kLeft ? m : n;                                                       \
    return (side == kLeft || side == kRight) && valid_transpose(transpose) &&                      \
                   valid_size(order, k, lda) && k <= order && valid_size(m, n, ldc)                \
               ? answer_work_size(handle, times(kBlock, std::max(m, n)), size)                     \
               : kInvalidValue;                                                                    \
  }                                                                                                \
  GPEMU_SHIM_EXPORT int cusolverDn##L##Q##mqr(void* handle, int side, int transpose, int m, int n, \
                                              int k, const void* a, int lda, const void* tau,      \
                                              void* c, int ldc, void*, int, int* info) {           \
    const int order = side == kLeft ? m : n;                                                       \
    return (side == kLeft || side == kRight) && valid_transpose(transpose) &&                      \
                   (tau != nullptr || k == 0) && valid_matrix(order, k, a, lda) && k <= order &&   \
                   valid_matrix(m, n, c, ldc)                                                      \
               ? submit_dense(handle,                                                              \
                              {"cusolverDn" #L#Q "mqr", T,                                         \
                               4.0 * m * n * k - 2.0 * (side == kLeft ? n : m) * k * k,            \
                               2.0 * m * n + 1.0 * order * k},                                     \
                              info, 1, {{c, m, n, ldc}})                                           \
               : kInvalidValue;                                                                    \
  }
GPEMU_ORTHOGONAL(S, or, GPEMU_TYPE_FP32)
GPEMU_ORTHOGONAL(D, or, GPEMU_TYPE_FP64)
GPEMU_ORTHOGONAL(C, un, GPEMU_TYPE_COMPLEX64)
GPEMU_ORTHOGONAL(Z, un, GPEMU_TYPE_COMPLEX128)
