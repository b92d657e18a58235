// SPDX-License-Identifier: Apache-2.0
// Singular values and eigenvalues of dense matrices, and the 64-bit interface.
#include <algorithm>

#include "dense.hpp"
#include "library_types.hpp"

namespace {

/// Returns whether gesvd writes the vectors of a side to their own array.
bool is_job(signed char job) {
  return job == 'A' || job == 'S';
}

bool valid_mode(int mode) {
  return mode == kNoVectors || mode == kVectors;
}

// A copy of the matrix and of its vectors.
double svd_space(double m, double n) {
  return 2 * m * n + 64 * (m + n);
}
double eigen_space(double n) {
  return 2 * n * n + 64 * n;
}

DenseWork svd(const char* name, gpemu_data_type type, double m, double n, bool vectors,
              double batch) {
  const double vector_elements = vectors ? m * m + n * n : 0;
  return {name, type, batch * operations_of_svd(m, n, vectors),
          batch * (2 * m * n + vector_elements)};
}

/// Singular values or eigenvalues, which are real.
DenseResult values_of(const void* values, int64_t count, int64_t batch = 1) {
  return {values, count, 1, 1, true, batch, count};
}

/// A square matrix, or a batch of them, one after the other.
DenseResult squares(const void* values, int64_t order, int64_t leading, int64_t batch = 1) {
  int64_t stride = 0;
  if (batch > 1 && __builtin_mul_overflow(order, leading, &stride)) {
    stride = INT64_MAX;  // no memory holds them
  }
  return {values, order, order, leading, false, batch, stride};
}

DenseWork eigen(const char* name, gpemu_data_type type, double n, bool vectors, double batch) {
  return {name, type, batch * operations_of_syevd(n, vectors), batch * 2 * n * n};
}

}  // namespace

#define GPEMU_SVD(L, T)                                                                            \
  GPEMU_SHIM_EXPORT int cusolverDn##L##gesvd_bufferSize(void* handle, int m, int n, int* size) {   \
    return m >= n && n >= 0 ? answer_work_size(handle, svd_space(m, n), size) : kInvalidValue;     \
  }                                                                                                \
  GPEMU_SHIM_EXPORT int cusolverDn##L##gesvd(                                                      \
      void* handle, signed char job_u, signed char job_v, int m, int n, void* a, int lda, void* s, \
      void* u, int ldu, void* v, int ldv, void*, int, void*, int* info) {                          \
    return valid_matrix(m, n, a, lda) && m >= n && s != nullptr                                    \
               ? submit_dense(handle, svd("cusolverDn" #L "gesvd", T, m, n, job_u != 'N', 1),      \
                              info, 1,                                                             \
                              {{a, m, n, lda},                                                     \
                               values_of(s, n),                                                    \
                               {is_job(job_u) ? u : nullptr, m, job_u == 'A' ? m : n, ldu},        \
                               {is_job(job_v) ? v : nullptr, n, n, ldv}})                          \
               : kInvalidValue;                                                                    \
  }                                                                                                \
  GPEMU_SHIM_EXPORT int cusolverDn##L##gesvdj_bufferSize(                                          \
      void* handle, int mode, int, int m, int n, const void*, int lda, const void*, const void*,   \
      int, const void*, int, int* size, void*) {                                                   \
    return valid_mode(mode) && valid_size(m, n, lda)                                               \
               ? answer_work_size(handle, svd_space(m, n), size)                                   \
               : kInvalidValue;                                                                    \
  }                                                                                                \
  GPEMU_SHIM_EXPORT int cusolverDn##L##gesvdj(void* handle, int mode, int economy, int m, int n,   \
                                              void* a, int lda, void* s, void* u, int ldu,         \
                                              void* v, int ldv, void*, int, int* info, void*) {    \
    const bool vectors = mode == kVectors;                                                         \
    const int rank = std::min(m, n);                                                               \
    return valid_mode(mode) && valid_matrix(m, n, a, lda) && s != nullptr                          \
               ? submit_dense(handle, svd("cusolverDn" #L "gesvdj", T, m, n, vectors, 1), info, 1, \
                              {{a, m, n, lda},                                                     \
                               values_of(s, rank),                                                 \
                               {vectors ? u : nullptr, m, economy != 0 ? rank : m, ldu},           \
                               {vectors ? v : nullptr, n, economy != 0 ? rank : n, ldv}})          \
               : kInvalidValue;                                                                    \
  }                                                                                                \
  GPEMU_SHIM_EXPORT int cusolverDn##L##gesvdjBatched_bufferSize(                                   \
      void* handle, int mode, int m, int n, const void*, int lda, const void*, const void*, int,   \
      const void*, int, int* size, void*, int batch) {                                             \
    return valid_mode(mode) && valid_size(m, n, lda) && m <= 32 && n <= 32 && batch >= 0           \
               ? answer_work_size(handle, svd_space(m, n) * batch, size)                           \
               : kInvalidValue;                                                                    \
  }                                                                                                \
  GPEMU_SHIM_EXPORT int cusolverDn##L##gesvdjBatched(                                              \
      void* handle, int mode, int m, int n, void* a, int lda, void* s, void* u, int ldu, void* v,  \
      int ldv, void*, int, int* info, void*, int batch) {                                          \
    const bool vectors = mode == kVectors;                                                         \
    return valid_mode(mode) && valid_matrix(m, n, a, lda) && m <= 32 && n <= 32 && batch >= 0 &&   \
                   s != nullptr                                                                    \
               ? submit_dense(handle,                                                              \
                              svd("cusolverDn" #L "gesvdjBatched", T, m, n, vectors, batch), info, \
                              batch,                                                               \
                              {{a, m, n, lda, false, batch, int64_t{lda} * n},                     \
                               values_of(s, std::min(m, n), batch),                                \
                               squares(vectors ? u : nullptr, m, ldu, batch),                      \
                               squares(vectors ? v : nullptr, n, ldv, batch)})                     \
               : kInvalidValue;                                                                    \
  }                                                                                                \
  GPEMU_SHIM_EXPORT int cusolverDn##L##gesvdaStridedBatched_bufferSize(                            \
      void* handle, int mode, int rank, int m, int n, const void*, int lda, long long,             \
      const void*, long long, const void*, int, long long, const void*, int, long long, int* size, \
      int batch) {                                                                                 \
    return valid_mode(mode) && valid_size(m, n, lda) && rank >= 0 && batch >= 0                    \
               ? answer_work_size(handle, svd_space(m, n) * batch, size)                           \
               : kInvalidValue;                                                                    \
  }                                                                                                \
  GPEMU_SHIM_EXPORT int cusolverDn##L##gesvdaStridedBatched(                                       \
      void* handle, int mode, int rank, int m, int n, const void* a, int lda, long long, void* s,  \
      long long stride_s, void* u, int ldu, long long stride_u, void* v, int ldv,                  \
      long long stride_v, void*, int, int* info, double* norms, int batch) {                       \
    if (!valid_mode(mode) || !valid_matrix(m, n, a, lda) || rank < 0 || batch < 0 ||               \
        s == nullptr) {                                                                            \
      return kInvalidValue;                                                                        \
    }                                                                                              \
    if (norms != nullptr) {                                                                        \
      std::fill_n(norms, batch, 0.0);                                                              \
    }                                                                                              \
    return submit_dense(                                                                           \
        handle, svd("cusolverDn" #L "gesvdaStridedBatched", T, m, n, mode == kVectors, batch),     \
        info, batch,                                                                               \
        {{s, rank, 1, 1, true, batch, stride_s},                                                   \
         {mode == kVectors ? u : nullptr, m, rank, ldu, false, batch, stride_u},                   \
         {mode == kVectors ? v : nullptr, n, rank, ldv, false, batch, stride_v}});                 \
  }
GPEMU_SVD(S, GPEMU_TYPE_FP32)
GPEMU_SVD(D, GPEMU_TYPE_FP64)
GPEMU_SVD(C, GPEMU_TYPE_COMPLEX64)
GPEMU_SVD(Z, GPEMU_TYPE_COMPLEX128)

// `E` is sy or he: real matrices are symmetric, complex ones Hermitian.
#define GPEMU_EIGEN(L, E, T)                                                                       \
  GPEMU_SHIM_EXPORT int cusolverDn##L##E##evd_bufferSize(                                          \
      void* handle, int mode, int fill, int n, const void*, int lda, const void*, int* size) {     \
    return valid_mode(mode) && valid_fill(fill) && valid_size(n, n, lda)                           \
               ? answer_work_size(handle, eigen_space(n), size)                                    \
               : kInvalidValue;                                                                    \
  }                                                                                                \
  GPEMU_SHIM_EXPORT int cusolverDn##L##E##evd(void* handle, int mode, int fill, int n, void* a,    \
                                              int lda, void* w, void*, int, int* info) {           \
    return valid_mode(mode) && valid_fill(fill) && valid_matrix(n, n, a, lda) && w != nullptr      \
               ? submit_dense(handle, eigen("cusolverDn" #L#E "evd", T, n, mode == kVectors, 1),   \
                              info, 1, {squares(a, n, lda), values_of(w, n)})                      \
               : kInvalidValue;                                                                    \
  }                                                                                                \
  GPEMU_SHIM_EXPORT int cusolverDn##L##E##evj_bufferSize(void* handle, int mode, int fill, int n,  \
                                                         const void*, int lda, const void*,        \
                                                         int* size, void*) {                       \
    return valid_mode(mode) && valid_fill(fill) && valid_size(n, n, lda)                           \
               ? answer_work_size(handle, eigen_space(n), size)                                    \
               : kInvalidValue;                                                                    \
  }                                                                                                \
  GPEMU_SHIM_EXPORT int cusolverDn##L##E##evj(void* handle, int mode, int fill, int n, void* a,    \
                                              int lda, void* w, void*, int, int* info, void*) {    \
    return valid_mode(mode) && valid_fill(fill) && valid_matrix(n, n, a, lda) && w != nullptr      \
               ? submit_dense(handle, eigen("cusolverDn" #L#E "evj", T, n, mode == kVectors, 1),   \
                              info, 1, {squares(a, n, lda), values_of(w, n)})                      \
               : kInvalidValue;                                                                    \
  }                                                                                                \
  GPEMU_SHIM_EXPORT int cusolverDn##L##E##evjBatched_bufferSize(                                   \
      void* handle, int mode, int fill, int n, const void*, int lda, const void*, int* size,       \
      void*, int batch) {                                                                          \
    return valid_mode(mode) && valid_fill(fill) && valid_size(n, n, lda) && batch >= 0             \
               ? answer_work_size(handle, eigen_space(n) * batch, size)                            \
               : kInvalidValue;                                                                    \
  }                                                                                                \
  GPEMU_SHIM_EXPORT int cusolverDn##L##E##evjBatched(void* handle, int mode, int fill, int n,      \
                                                     void* a, int lda, void* w, void*, int,        \
                                                     int* info, void*, int batch) {                \
    return valid_mode(mode) && valid_fill(fill) && valid_matrix(n, n, a, lda) && batch >= 0 &&     \
                   w != nullptr                                                                    \
               ? submit_dense(                                                                     \
                     handle, eigen("cusolverDn" #L#E "evjBatched", T, n, mode == kVectors, batch), \
                     info, batch, {squares(a, n, lda, batch), values_of(w, n, batch)})             \
               : kInvalidValue;                                                                    \
  }
GPEMU_EIGEN(S, sy, GPEMU_TYPE_FP32)
GPEMU_EIGEN(D, sy, GPEMU_TYPE_FP64)
GPEMU_EIGEN(C, he, GPEMU_TYPE_COMPLEX64)
GPEMU_EIGEN(Z, he, GPEMU_TYPE_COMPLEX128)

GPEMU_SHIM_EXPORT int cusolverDnXpotrf_bufferSize(void* handle, void*, int fill, int64_t n,
                                                  int type, const void*, int64_t lda, int,
                                                  size_t* device, size_t* host) {
  return valid_fill(fill) && valid_size(n, n, lda)
             ? answer_work_bytes(handle, times(32, n), type, device, host)
             : kInvalidValue;
}
GPEMU_SHIM_EXPORT int cusolverDnXpotrf(void* handle, void*, int fill, int64_t n, int type, void* a,
                                       int64_t lda, int, void*, size_t, void*, size_t, int* info) {
  const auto order = static_cast<double>(n);
  return valid_fill(fill) && valid_matrix(n, n, a, lda)
             ? submit_dense(handle,
                            {"cusolverDnXpotrf", type_of_cuda(type), order * order * order / 3,
                             order * order},
                            info, 1, {squares(a, n, lda)})
             : kInvalidValue;
}
GPEMU_SHIM_EXPORT int cusolverDnXpotrs(void* handle, void*, int fill, int64_t n, int64_t columns,
                                       int type, const void* a, int64_t lda, int, void* b,
                                       int64_t ldb, int* info) {
  const auto order = static_cast<double>(n);
  const auto width = static_cast<double>(columns);
  return valid_fill(fill) && valid_matrix(n, n, a, lda) && valid_matrix(n, columns, b, ldb)
             ? submit_dense(handle,
                            {"cusolverDnXpotrs", type_of_cuda(type), 2 * order * order * width,
                             order * order + 4 * order * width},
                            info, 1, {{b, n, columns, ldb}})
             : kInvalidValue;
}
GPEMU_SHIM_EXPORT int cusolverDnXsytrs_bufferSize(void* handle, int fill, int64_t n,
                                                  int64_t columns, int type, const void*,
                                                  int64_t lda, const int64_t*, int, void*,
                                                  int64_t ldb, size_t* device, size_t* host) {
  return valid_fill(fill) && valid_size(n, n, lda) && valid_size(n, columns, ldb)
             ? answer_work_bytes(handle, times(32, n), type, device, host)
             : kInvalidValue;
}
GPEMU_SHIM_EXPORT int cusolverDnXsytrs(void* handle, int fill, int64_t n, int64_t columns, int type,
                                       const void* a, int64_t lda, const int64_t*, int, void* b,
                                       int64_t ldb, void*, size_t, void*, size_t, int* info) {
  const auto order = static_cast<double>(n);
  const auto width = static_cast<double>(columns);
  return valid_fill(fill) && valid_matrix(n, n, a, lda) && valid_matrix(n, columns, b, ldb)
             ? submit_dense(handle,
                            {"cusolverDnXsytrs", type_of_cuda(type), 2 * order * order * width,
                             order * order + 4 * order * width},
                            info, 1, {{b, n, columns, ldb}})
             : kInvalidValue;
}
GPEMU_SHIM_EXPORT int cusolverDnXgeqrf_bufferSize(void* handle, void*, int64_t m, int64_t n,
                                                  int type, const void*, int64_t lda, int,
                                                  const void*, int, size_t* device, size_t* host) {
  return valid_size(m, n, lda) ? answer_work_bytes(handle, times(32, n), type, device, host)
                               : kInvalidValue;
}
GPEMU_SHIM_EXPORT int cusolverDnXgeqrf(void* handle, void*, int64_t m, int64_t n, int type, void* a,
                                       int64_t lda, int, void* tau, int, void*, size_t, void*,
                                       size_t, int* info) {
  const auto rows = static_cast<double>(m);
  const auto columns = static_cast<double>(n);
  return valid_matrix(m, n, a, lda) && (tau != nullptr || m == 0 || n == 0)
             ? submit_dense(handle,
                            {"cusolverDnXgeqrf", type_of_cuda(type),
                             operations_of_geqrf(rows, columns), 2 * rows * columns},
                            info, 1, {{a, m, n, lda}, {tau, std::min(m, n), 1, 1}})
             : kInvalidValue;
}
GPEMU_SHIM_EXPORT int cusolverDnXsyevd_bufferSize(void* handle, void*, int mode, int fill,
                                                  int64_t n, int type, const void*, int64_t lda,
                                                  int, const void*, int, size_t* device,
                                                  size_t* host) {
  return valid_mode(mode) && valid_fill(fill) && valid_size(n, n, lda)
             ? answer_work_bytes(handle, eigen_space(times(n)), type, device, host)
             : kInvalidValue;
}
GPEMU_SHIM_EXPORT int cusolverDnXsyevd(void* handle, void*, int mode, int fill, int64_t n, int type,
                                       void* a, int64_t lda, int, void* w, int, void*, size_t,
                                       void*, size_t, int* info) {
  return valid_mode(mode) && valid_fill(fill) && valid_matrix(n, n, a, lda) && w != nullptr
             ? submit_dense(handle,
                            eigen("cusolverDnXsyevd", type_of_cuda(type), static_cast<double>(n),
                                  mode == kVectors, 1),
                            info, 1, {squares(a, n, lda), values_of(w, n)})
             : kInvalidValue;
}
GPEMU_SHIM_EXPORT int cusolverDnXsyevBatched_bufferSize(void* handle, void*, int mode, int fill,
                                                        int64_t n, int type, const void*,
                                                        int64_t lda, int, const void*, int,
                                                        size_t* device, size_t* host,
                                                        int64_t batch) {
  return valid_mode(mode) && valid_fill(fill) && valid_size(n, n, lda) && batch >= 0
             ? answer_work_bytes(handle, eigen_space(times(n)) * times(batch), type, device, host)
             : kInvalidValue;
}
GPEMU_SHIM_EXPORT int cusolverDnXsyevBatched(void* handle, void*, int mode, int fill, int64_t n,
                                             int type, void* a, int64_t lda, int, void* w, int,
                                             void*, size_t, void*, size_t, int* info,
                                             int64_t batch) {
  return valid_mode(mode) && valid_fill(fill) && valid_matrix(n, n, a, lda) && batch >= 0 &&
                 w != nullptr
             ? submit_dense(
                   handle,
                   eigen("cusolverDnXsyevBatched", type_of_cuda(type), static_cast<double>(n),
                         mode == kVectors, static_cast<double>(batch)),
                   info, batch, {squares(a, n, lda, batch), values_of(w, n, batch)})
             : kInvalidValue;
}
/// Left eigenvectors are not supported, as documented.
GPEMU_SHIM_EXPORT int cusolverDnXgeev_bufferSize(void* handle, void*, int left, int right,
                                                 int64_t n, int type, const void*, int64_t lda, int,
                                                 const void*, int, const void*, int64_t, int,
                                                 const void*, int64_t, int, size_t* device,
                                                 size_t* host) {
  return left == kNoVectors && valid_mode(right) && valid_size(n, n, lda)
             ? answer_work_bytes(handle, eigen_space(times(n)), type, device, host)
             : kInvalidValue;
}
GPEMU_SHIM_EXPORT int cusolverDnXgeev(void* handle, void*, int left, int right, int64_t n, int type,
                                      void* a, int64_t lda, int, void* w, int, void*, int64_t, int,
                                      void* vectors, int64_t leading, int, void*, size_t, void*,
                                      size_t, int* info) {
  const auto order = static_cast<double>(n);
  // A complex eigenvalue of a real matrix is two of its elements.
  const gpemu_data_type known = type_of_cuda(type);
  const bool is_complex = known == GPEMU_TYPE_COMPLEX64 || known == GPEMU_TYPE_COMPLEX128;
  // Golub and Van Loan, section 7.5: the QR iteration with and without its vectors.
  const double factor = right == kVectors ? 25 : 10;
  return left == kNoVectors && valid_mode(right) && valid_matrix(n, n, a, lda) && w != nullptr
             ? submit_dense(handle,
                            {"cusolverDnXgeev", type_of_cuda(type), factor * order * order * order,
                             4 * order * order},
                            info, 1,
                            {squares(a, n, lda),
                             {w, is_complex ? 1 : 2, n, is_complex ? 1 : 2},
                             squares(right == kVectors ? vectors : nullptr, n, leading)})
             : kInvalidValue;
}
