// SPDX-License-Identifier: Apache-2.0
// Factorisations and solves of batches of small matrices. Every matrix is reported as regular.
#include "cublas.hpp"
#include "write_pieces.hpp"

namespace {

/// Work of one matrix: arithmetic operations, elements read and written.
struct PerMatrix {
  double operations, elements;
};

struct Batch {
  const char* function;
  gpemu_data_type type;
  int64_t count;
};

/// Matrices that are written, one of each in the batch.
struct Matrices {
  void* const* addresses;
  int64_t rows, columns, leading;
  Content content;
};

int run(const void* handle, bool valid, const Batch& batch, PerMatrix work,
        std::initializer_list<Matrices> written) {
  const Context* const context = find_object<Context>(handle);
  if (context == nullptr) {
    return kNotInitialized;
  }
  if (!valid || batch.count < 0) {
    return kInvalidValue;
  }
  if (batch.count == 0 || work.elements == 0) {
    return kSuccess;
  }
  int status =
      submit(*context, {batch.function, GPEMU_OPERATION_OTHER, batch.type, batch.type},
             {entry_of(times(batch.count) * work.operations),
              entry_of(times(batch.count) * work.elements * gpemu_data_type_bytes(batch.type))});
  for (const Matrices& matrices : written) {
    status =
        leave_uncomputed(status, *context, batch.function, batch.type,
                         {{static_cast<const void*>(matrices.addresses), matrices.rows,
                           matrices.columns, matrices.leading, matrices.content, batch.count}});
  }
  return status;
}

/// Writes `count` integers to memory of the device, value(0) first.
template <typename Value>
int write_array(int* array, uint64_t count, Value value) {
  return write_pieces(count, value, [array](uint64_t first, const int* piece, uint64_t bytes) {
    return status_of(gpemu_cuda_poke(address_of(array) + first * sizeof(int), piece, bytes));
  });
}

/// Reports success of each matrix in an array of the device.
int report(int status, int* info, int64_t count) {
  if (status != kSuccess || info == nullptr || count == 0) {
    return status;
  }
  return write_array(info, static_cast<uint64_t>(count), [](uint64_t) { return 0; });
}

/// Reports that no matrix's rows were swapped; there may be nowhere to report it.
int report_pivots(int status, int* pivots, int n, int batch) {
  if (status != kSuccess || pivots == nullptr || n == 0 || batch == 0) {
    return status;
  }
  const auto rows = static_cast<uint64_t>(n);
  return write_array(pivots, rows * static_cast<uint64_t>(batch),
                     [rows](uint64_t i) { return static_cast<int>(i % rows) + 1; });
}

/// Reports that the arguments were right in an integer of the host.
int report_on_host(int status, int* info) {
  if (status == kSuccess) {
    *info = 0;
  }
  return status;
}

}  // namespace

// Operations: LAPACK Working Note 41, appendix C.
#define GETRF(name, type)                                                                         \
  GPEMU_SHIM_EXPORT int name(void* handle, int n, void* const* a, int lda, int* pivot, int* info, \
                             int batch) {                                                         \
    const bool valid = n >= 0 && info != nullptr && holds(lda, n);                                \
    const int status =                                                                            \
        run(handle, valid, {#name, type, batch}, {2 * times(n, n, n) / 3, 2 * times(n, n)},       \
            {{a, n, n, lda, Content::kUpdated}});                                                 \
    return report_pivots(report(status, info, batch), pivot, n, batch);                           \
  }

#define GETRI(name, type)                                                                   \
  GPEMU_SHIM_EXPORT int name(void* handle, int n, const void* const* /*a*/, int lda,        \
                             const int* /*pivot*/, void* const* c, int ldc, int* info,      \
                             int batch) {                                                   \
    const bool valid = n >= 0 && info != nullptr && holds(lda, n) && holds(ldc, n);         \
    const int status =                                                                      \
        run(handle, valid, {#name, type, batch}, {4 * times(n, n, n) / 3, 2 * times(n, n)}, \
            {{c, n, n, ldc, Content::kOverwritten}});                                       \
    return report(status, info, batch);                                                     \
  }

#define MATINV(name, type)                                                                     \
  GPEMU_SHIM_EXPORT int name(void* handle, int n, const void* const* /*a*/, int lda,           \
                             void* const* inverse, int ldi, int* info, int batch) {            \
    const bool valid = n >= 0 && n <= 32 && info != nullptr && holds(lda, n) && holds(ldi, n); \
    const int status =                                                                         \
        run(handle, valid, {#name, type, batch}, {2 * times(n, n, n), 2 * times(n, n)},        \
            {{inverse, n, n, ldi, Content::kOverwritten}});                                    \
    return report(status, info, batch);                                                        \
  }

#define GETRS(name, type)                                                                        \
  GPEMU_SHIM_EXPORT int name(void* handle, int trans, int n, int nrhs, const void* const* /*a*/, \
                             int lda, const int* /*pivot*/, void* const* b, int ldb, int* info,  \
                             int batch) {                                                        \
    const bool valid = is_transpose(trans) && n >= 0 && nrhs >= 0 && info != nullptr &&          \
                       holds(lda, n) && holds(ldb, n);                                           \
    const int status = run(handle, valid, {#name, type, batch},                                  \
                           {2 * times(n, n, nrhs), times(n, n) + 2 * times(n, nrhs)},            \
                           {{b, n, nrhs, ldb, Content::kUpdated}});                              \
    return report_on_host(status, info);                                                         \
  }

#define GEQRF(name, type)                                                                        \
  GPEMU_SHIM_EXPORT int name(void* handle, int m, int n, void* const* a, int lda,                \
                             void* const* tau, int* info, int batch) {                           \
    const bool valid = m >= 0 && n >= 0 && info != nullptr && holds(lda, m);                     \
    const int64_t small = m < n ? m : n;                                                         \
    const int64_t large = m < n ? n : m;                                                         \
    const int status =                                                                           \
        run(handle, valid, {#name, type, batch},                                                 \
            {2 * times(small, small, 3 * large - small) / 3, 2 * times(small, large)},           \
            {{a, m, n, lda, Content::kUpdated}, {tau, small, 1, small, Content::kOverwritten}}); \
    return report_on_host(status, info);                                                         \
  }

#define GELS(name, type)                                                                           \
  GPEMU_SHIM_EXPORT int name(void* handle, int trans, int m, int n, int nrhs, void* const* a,      \
                             int lda, void* const* c, int ldc, int* info, int* device_info,        \
                             int batch) {                                                          \
    const bool valid =                                                                             \
        m >= 0 && n >= 0 && nrhs >= 0 && info != nullptr && holds(lda, m) && holds(ldc, m);        \
    if (valid && (trans != kNone || m < n)) { /* overdetermined systems only, as documented */     \
      gpemu_cuda_not_supported(GPEMU_SHIM_SONAME, #name);                                          \
      return kNotSupported;                                                                        \
    }                                                                                              \
    const double operations =                                                                      \
        2 * times(n, n) * (3 * times(m) - times(n)) / 3 + 4 * times(m, n, nrhs);                   \
    const int status =                                                                             \
        run(handle, valid, {#name, type, batch}, {operations, 2 * (times(m, n) + times(m, nrhs))}, \
            {{a, m, n, lda, Content::kUpdated}, {c, m, nrhs, ldc, Content::kUpdated}});            \
    return report(report_on_host(status, info), device_info, batch);                               \
  }

#define LAPACK(FAMILY, function)                           \
  FAMILY(cublasS##function##Batched, GPEMU_TYPE_FP32)      \
  FAMILY(cublasD##function##Batched, GPEMU_TYPE_FP64)      \
  FAMILY(cublasC##function##Batched, GPEMU_TYPE_COMPLEX64) \
  FAMILY(cublasZ##function##Batched, GPEMU_TYPE_COMPLEX128)
LAPACK(GETRF, getrf)
LAPACK(GETRI, getri)
LAPACK(GETRS, getrs)
LAPACK(GEQRF, geqrf)
LAPACK(GELS, gels)
LAPACK(MATINV, matinv)
