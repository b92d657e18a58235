// SPDX-License-Identifier: Apache-2.0
// Levels 2 and 3 but for general products, and BLAS-like extensions.
#include <cmath>

#include "cublas.hpp"

namespace {

/// Runs `body(context)` if the handle is alive and the arguments are valid.
template <typename Body>
int checked(const void* handle, bool valid, bool empty, Body body) {
  const Context* const context = find_object<Context>(handle);
  if (context == nullptr) {
    return kNotInitialized;
  }
  if (!valid) {
    return kInvalidValue;
  }
  return empty ? static_cast<int>(kSuccess) : body(*context);
}

struct Shape {
  int64_t batch, m, n, k;
};

/// A product with a triangular or a symmetric matrix.
int multiply(const char* function, const Context& context, gpemu_data_type type, Shape s) {
  const bool tf32 = type == GPEMU_TYPE_FP32 && allows_tf32(context);
  return submit(context, {function, GPEMU_OPERATION_MATMUL, type, tf32 ? GPEMU_TYPE_TF32 : type},
                {s.batch, s.m, s.n, s.k});
}

/// A vector with a distance between its elements.
struct Vector {
  const void* elements;
  int64_t distance;
};

/// Declares what a product of a matrix and a vector writes to `y`.
int write_product(const char* function, const Context& context, gpemu_cuda_product product,
                  const Vector& x, const Vector& y) {
  product.b = address_of(x.elements);
  product.c = address_of(y.elements);
  product.n = 1;
  product.batch = 1;
  product.leading_b = product.k;
  product.leading_c = product.m;
  product.type_c = product.type;
  if (x.distance == 1 && y.distance == 1) {
    return status_of(gpemu_cuda_multiply(&product, function, context.stream));
  }
  const Content content =
      product.known != 0 && product.beta != 0 ? Content::kUpdated : Content::kOverwritten;
  return leave_uncomputed(kSuccess, context, function, product.type,
                          {{y.elements, 1, product.m, y.distance, content}});
}

/// The matrix of such a product, with `rows` and `columns` as in memory.
gpemu_cuda_product product_of(const Context& context, gpemu_data_type type, int trans, Shape s,
                              const void* const (&scalars)[2]) {
  gpemu_cuda_product product{};
  product.m = trans == kNone ? s.m : s.n;
  product.k = trans == kNone ? s.n : s.m;
  product.transpose_a = trans;
  product.type = type;
  product.known = read_scalar(context, type, scalars[0], &product.alpha) &&
                          read_scalar(context, type, scalars[1], &product.beta)
                      ? 1
                      : 0;
  return product;
}

/// Half of a number, rounded up.
constexpr int64_t half(int64_t n) {
  return n / 2 + n % 2;
}

/// Elements of a triangle of size `n`.
double triangle_of(int64_t n) {
  return std::ceil(times(n, n) / 2);
}

/// Solves a triangle of size `n` for `columns` right-hand sides: n * n multiplications and
/// additions each; the triangle is read, the sides are read and written.
int solve(const char* function, const Context& context, gpemu_data_type type, Shape s) {
  const double elements = times(s.batch) * (triangle_of(s.n) + 2 * times(s.n, s.k));
  return submit(
      context, {function, GPEMU_OPERATION_OTHER, type, type},
      {entry_of(times(s.batch, s.n, s.n, s.k)), entry_of(elements * gpemu_data_type_bytes(type))});
}

int update(const char* function, const Context& context, gpemu_data_type type, double elements,
           int64_t operations) {
  return submit(context, {function, GPEMU_OPERATION_ELEMENTWISE, type, type},
                {entry_of(elements), entry_of(elements), operations});
}

/// Adds products with `k` inner elements to a triangle of size `m`; with none, scales it by beta.
int update_triangle(const char* function, const Context& context, gpemu_data_type type, Shape s) {
  return s.k == 0 ? update(function, context, type, triangle_of(s.m), 1)
                  : multiply(function, context, type, s);
}

constexpr bool is_side(int value) {
  return value == kLeft || value == kRight;
}

constexpr bool is_fill(int value) {
  return value == kLower || value == kUpper;
}

constexpr bool is_diagonal(int value) {
  return value == kNonUnit || value == kUnit;
}

}  // namespace

// ---- Level 2 ----

#define GEMV(name, type, Int)                                                                     \
  GPEMU_SHIM_EXPORT int name(void* handle, int trans, Int m, Int n, const void* alpha,            \
                             const void* a, Int lda, const void* x, Int incx, const void* beta,   \
                             void* y, Int incy) {                                                 \
    const bool valid = alpha != nullptr && beta != nullptr && is_transpose(trans) && m >= 0 &&    \
                       n >= 0 && holds(lda, m) && incx != 0 && incy != 0;                         \
    return checked(handle, valid, m == 0 || n == 0, [=](const Context& context) {                 \
      const int status = trans == kNone ? multiply(#name, context, type, {1, m, 1, n})            \
                                        : multiply(#name, context, type, {1, n, 1, m});           \
      if (status != kSuccess) {                                                                   \
        return status;                                                                            \
      }                                                                                           \
      gpemu_cuda_product product = product_of(context, type, trans, {1, m, n, 0}, {alpha, beta}); \
      product.a = address_of(a);                                                                  \
      product.leading_a = lda;                                                                    \
      return write_product(#name, context, product, {x, incx}, {y, incy});                        \
    });                                                                                           \
  }
GPEMU_BLAS_ALL(GEMV, gemv_v2)

#define SYMV(name, type, Int)                                                                     \
  GPEMU_SHIM_EXPORT int name(void* handle, int uplo, Int n, const void* alpha, const void* /*a*/, \
                             Int lda, const void* /*x*/, Int incx, const void* beta, void* y,     \
                             Int incy) {                                                          \
    const bool valid = alpha != nullptr && beta != nullptr && is_fill(uplo) && n >= 0 &&          \
                       holds(lda, n) && incx != 0 && incy != 0;                                   \
    return checked(handle, valid, n == 0, [=](const Context& context) {                           \
      return leave_uncomputed(multiply(#name, context, type, {1, n, 1, n}), context, #name, type, \
                              {{y, 1, n, incy, content_after(context, type, beta)}});             \
    });                                                                                           \
  }
GPEMU_BLAS_ALL(SYMV, symv_v2)
GPEMU_BLAS_COMPLEX(SYMV, hemv_v2)

#define GER(name, type, Int)                                                                      \
  GPEMU_SHIM_EXPORT int name(void* handle, Int m, Int n, const void* alpha, const void* /*x*/,    \
                             Int incx, const void* /*y*/, Int incy, void* a, Int lda) {           \
    const bool valid =                                                                            \
        alpha != nullptr && m >= 0 && n >= 0 && incx != 0 && incy != 0 && holds(lda, m);          \
    return checked(handle, valid, m == 0 || n == 0, [=](const Context& context) {                 \
      return leave_uncomputed(update(#name, context, type, times(m, n), 2), context, #name, type, \
                              {{a, m, n, lda, Content::kUpdated}});                               \
    });                                                                                           \
  }
GPEMU_BLAS_REAL(GER, ger_v2)
GPEMU_BLAS_COMPLEX(GER, geru_v2)
GPEMU_BLAS_COMPLEX(GER, gerc_v2)

#define SYR(name, type, Int)                                                                      \
  GPEMU_SHIM_EXPORT int name(void* handle, int uplo, Int n, const void* alpha, const void* /*x*/, \
                             Int incx, void* a, Int lda) {                                        \
    const bool valid = alpha != nullptr && is_fill(uplo) && n >= 0 && incx != 0 && holds(lda, n); \
    return checked(handle, valid, n == 0, [=](const Context& context) {                           \
      return leave_uncomputed(update(#name, context, type, triangle_of(n), 2), context, #name,    \
                              type, {{a, n, n, lda, kTriangle}});                                 \
    });                                                                                           \
  }
GPEMU_BLAS_ALL(SYR, syr_v2)
GPEMU_BLAS_COMPLEX(SYR, her_v2)

#define SYR2(name, type, Int)                                                                     \
  GPEMU_SHIM_EXPORT int name(void* handle, int uplo, Int n, const void* alpha, const void* /*x*/, \
                             Int incx, const void* /*y*/, Int incy, void* a, Int lda) {           \
    const bool valid =                                                                            \
        alpha != nullptr && is_fill(uplo) && n >= 0 && incx != 0 && incy != 0 && holds(lda, n);   \
    return checked(handle, valid, n == 0, [=](const Context& context) {                           \
      return leave_uncomputed(update(#name, context, type, triangle_of(n), 4), context, #name,    \
                              type, {{a, n, n, lda, kTriangle}});                                 \
    });                                                                                           \
  }
GPEMU_BLAS_ALL(SYR2, syr2_v2)
GPEMU_BLAS_COMPLEX(SYR2, her2_v2)

#define TRMV(name, type, Int)                                                                  \
  GPEMU_SHIM_EXPORT int name(void* handle, int uplo, int trans, int diag, Int n,               \
                             const void* /*a*/, Int lda, void* x, Int incx) {                  \
    const bool valid = is_fill(uplo) && is_transpose(trans) && is_diagonal(diag) && n >= 0 &&  \
                       holds(lda, n) && incx != 0;                                             \
    return checked(handle, valid, n == 0, [=](const Context& context) {                        \
      return leave_uncomputed(solve(#name, context, type, {1, 0, n, 1}), context, #name, type, \
                              {{x, 1, n, incx, Content::kUpdated}});                           \
    });                                                                                        \
  }
GPEMU_BLAS_ALL(TRMV, trmv_v2)
GPEMU_BLAS_ALL(TRMV, trsv_v2)

// ---- Level 3 ----

#define SYMM(name, type, Int)                                                                   \
  GPEMU_SHIM_EXPORT int name(void* handle, int side, int uplo, Int m, Int n, const void* alpha, \
                             const void* /*a*/, Int lda, const void* /*b*/, Int ldb,            \
                             const void* beta, void* c, Int ldc) {                              \
    const Int inner = side == kLeft ? m : n;                                                    \
    const bool valid = alpha != nullptr && beta != nullptr && is_side(side) && is_fill(uplo) && \
                       m >= 0 && n >= 0 && holds(lda, inner) && holds(ldb, m) && holds(ldc, m); \
    return checked(handle, valid, m == 0 || n == 0, [=](const Context& context) {               \
      return leave_uncomputed(multiply(#name, context, type, {1, m, n, inner}), context, #name, \
                              type, {{c, m, n, ldc, content_after(context, type, beta)}});      \
    });                                                                                         \
  }
GPEMU_BLAS_ALL(SYMM, symm_v2)
GPEMU_BLAS_COMPLEX(SYMM, hemm_v2)

// Half of the output is written.
#define SYRK(name, type, Int)                                                                     \
  GPEMU_SHIM_EXPORT int name(void* handle, int uplo, int trans, Int n, Int k, const void* alpha,  \
                             const void* /*a*/, Int lda, const void* beta, void* c, Int ldc) {    \
    const bool valid = alpha != nullptr && beta != nullptr && is_fill(uplo) &&                    \
                       is_transpose(trans) && n >= 0 && k >= 0 &&                                 \
                       holds(lda, trans == kNone ? n : k) && holds(ldc, n);                       \
    return checked(handle, valid, n == 0, [=](const Context& context) {                           \
      return leave_uncomputed(update_triangle(#name, context, type, {1, n, half(n), k}), context, \
                              #name, type, {{c, n, n, ldc, kTriangle}});                          \
    });                                                                                           \
  }
GPEMU_BLAS_ALL(SYRK, syrk_v2)
GPEMU_BLAS_COMPLEX(SYRK, herk_v2)

// Two products, of each of which half the output is written.
#define SYR2K(name, type, Int)                                                                     \
  GPEMU_SHIM_EXPORT int name(void* handle, int uplo, int trans, Int n, Int k, const void* alpha,   \
                             const void* /*a*/, Int lda, const void* /*b*/, Int ldb,               \
                             const void* beta, void* c, Int ldc) {                                 \
    const Int rows = trans == kNone ? n : k;                                                       \
    const bool valid = alpha != nullptr && beta != nullptr && is_fill(uplo) &&                     \
                       is_transpose(trans) && n >= 0 && k >= 0 && holds(lda, rows) &&              \
                       holds(ldb, rows) && holds(ldc, n);                                          \
    return checked(handle, valid, n == 0, [=](const Context& context) {                            \
      return leave_uncomputed(update_triangle(#name, context, type, {1, n, n, k}), context, #name, \
                              type, {{c, n, n, ldc, kTriangle}});                                  \
    });                                                                                            \
  }
GPEMU_BLAS_ALL(SYR2K, syr2k_v2)
GPEMU_BLAS_COMPLEX(SYR2K, her2k_v2)

#define TRMM(name, type, Int)                                                                     \
  GPEMU_SHIM_EXPORT int name(void* handle, int side, int uplo, int trans, int diag, Int m, Int n, \
                             const void* alpha, const void* /*a*/, Int lda, const void* b,        \
                             Int ldb, void* c, Int ldc) {                                         \
    const Int inner = side == kLeft ? m : n;                                                      \
    const bool valid = alpha != nullptr && is_side(side) && is_fill(uplo) &&                      \
                       is_transpose(trans) && is_diagonal(diag) && m >= 0 && n >= 0 &&            \
                       holds(lda, inner) && holds(ldb, m) && holds(ldc, m);                       \
    return checked(handle, valid, m == 0 || n == 0, [=](const Context& context) {                 \
      return leave_uncomputed(multiply(#name, context, type, {1, m, n, half(inner)}), context,    \
                              #name, type, {{c, m, n, ldc, content_after(c, b)}});                \
    });                                                                                           \
  }
GPEMU_BLAS_ALL(TRMM, trmm_v2)

#define TRSM(name, type, Int)                                                                     \
  GPEMU_SHIM_EXPORT int name(void* handle, int side, int uplo, int trans, int diag, Int m, Int n, \
                             const void* alpha, const void* /*a*/, Int lda, void* b, Int ldb) {   \
    const Int inner = side == kLeft ? m : n;                                                      \
    const bool valid = alpha != nullptr && is_side(side) && is_fill(uplo) &&                      \
                       is_transpose(trans) && is_diagonal(diag) && m >= 0 && n >= 0 &&            \
                       holds(lda, inner) && holds(ldb, m);                                        \
    return checked(handle, valid, m == 0 || n == 0, [=](const Context& context) {                 \
      return leave_uncomputed(solve(#name, context, type, {1, 0, inner, side == kLeft ? n : m}),  \
                              context, #name, type, {{b, m, n, ldb, Content::kUpdated}});         \
    });                                                                                           \
  }
GPEMU_BLAS_ALL(TRSM, trsm_v2)

#define TRSM_BATCHED(name, type, Int)                                                              \
  GPEMU_SHIM_EXPORT int name(void* handle, int side, int uplo, int trans, int diag, Int m, Int n,  \
                             const void* /*alpha*/, const void* const* /*a*/, Int lda,             \
                             void* const* b, Int ldb, Int batch) {                                 \
    const Int inner = side == kLeft ? m : n;                                                       \
    const bool valid = is_side(side) && is_fill(uplo) && is_transpose(trans) &&                    \
                       is_diagonal(diag) && m >= 0 && n >= 0 && batch >= 0 && holds(lda, inner) && \
                       holds(ldb, m);                                                              \
    return checked(handle, valid, m == 0 || n == 0 || batch == 0, [=](const Context& context) {    \
      return leave_uncomputed(                                                                     \
          solve(#name, context, type, {batch, 0, inner, side == kLeft ? n : m}), context, #name,   \
          type, {{b, m, n, ldb, Content::kUpdated, batch}});                                       \
    });                                                                                            \
  }
GPEMU_BLAS_ALL(TRSM_BATCHED, trsmBatched)

// ---- Extensions ----

#define GEAM(name, type, Int)                                                                     \
  GPEMU_SHIM_EXPORT int name(void* handle, int ta, int tb, Int m, Int n, const void* alpha,       \
                             const void* a, Int lda, const void* beta, const void* b, Int ldb,    \
                             void* c, Int ldc) {                                                  \
    const bool valid = alpha != nullptr && beta != nullptr && is_transpose(ta) &&                 \
                       is_transpose(tb) && m >= 0 && n >= 0 && holds(lda, ta == kNone ? m : n) && \
                       holds(ldb, tb == kNone ? m : n) && holds(ldc, m);                          \
    return checked(handle, valid, m == 0 || n == 0, [=](const Context& context) {                 \
      const double elements = times(m, n);                                                        \
      return leave_uncomputed(submit(context, {#name, GPEMU_OPERATION_ELEMENTWISE, type, type},   \
                                     {entry_of(2 * elements), entry_of(elements), 3}),            \
                              context, #name, type,                                               \
                              {{c, m, n, ldc, content_after(c, c == a ? a : b)}});                \
    });                                                                                           \
  }
GPEMU_BLAS_ALL(GEAM, geam)

#define DGMM(name, type, Int)                                                                     \
  GPEMU_SHIM_EXPORT int name(void* handle, int side, Int m, Int n, const void* a, Int lda,        \
                             const void* /*x*/, Int /*incx*/, void* c, Int ldc) {                 \
    const bool valid = is_side(side) && m >= 0 && n >= 0 && holds(lda, m) && holds(ldc, m);       \
    return checked(handle, valid, m == 0 || n == 0, [=](const Context& context) {                 \
      return leave_uncomputed(update(#name, context, type, times(m, n), 1), context, #name, type, \
                              {{c, m, n, ldc, content_after(c, a)}});                             \
    });                                                                                           \
  }
GPEMU_BLAS_ALL(DGMM, dgmm)
