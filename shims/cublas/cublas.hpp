// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>

#include "abi.hpp"
#include "handle_table.hpp"
#include "library_types.hpp"
#include "library_work.hpp"
#include "shim.hpp"

/// What a cublasHandle_t holds.
struct Context {
  gpemu_cuda_stream_handle stream = nullptr;
  int math_mode = 0;
  int pointer_mode = kHostPointer;
  int atomics_mode = kNoAtomics;
  int sm_count_target = 0;
};

/// Returns the cublasStatus_t for a status of libgpemu.
int status_of(gpemu_cuda_status status);

/// Returns whether FP32 products may use TF32 (CUBLAS_TF32_TENSOR_OP_MATH).
bool allows_tf32(const Context& context);

/// The work of a call: the content of gpemu_operation, in the order of its fields.
struct Work {
  const char* function;
  gpemu_operation_kind kind;
  gpemu_data_type type;
  gpemu_data_type compute_type;
  gpemu_access access = GPEMU_ACCESS_CONTIGUOUS;
};

/// Puts the work on the context's stream.
int submit(const Context& context, const Work& work, std::initializer_list<int64_t> shape);

/// Whether a call reads what it writes: then the memory keeps its content.
enum class Content : bool { kOverwritten, kUpdated };

/// A matrix that a call writes, or `count` matrices whose addresses are in an array on the device.
/// A vector is a matrix with one row, whose leading dimension is the distance of the elements.
struct Written {
  const void* elements;
  int64_t rows, columns, leading;
  Content content;
  int64_t count = 0;
};

/// Of a matrix whose one triangle is written: the other triangle must keep its content, and a
/// triangle has no rows of one length, so that all of the matrix counts as updated.
constexpr Content kTriangle = Content::kUpdated;

/// Ends a call whose results are not computed, unless it failed with `status`. Errors:
/// INVALID_VALUE for results that no memory holds.
int leave_uncomputed(int status, const Context& context, const char* function, gpemu_data_type type,
                     std::initializer_list<Written> results);

/// Ends a call that puts `bytes` at `result`: in host pointer mode it waits for the stream, as
/// cuBLAS does.
int put_result(const Context& context, void* result, const void* value, uint64_t bytes);

/// As above. Values are not computed: the result is 0.
int put_zero(const Context& context, void* result, uint64_t bytes);

/// Writes to the caller's result, in memory of the host or of a device.
int write(void* destination, const void* source, uint64_t bytes);

/// Reads alpha or beta, which has the type of the arithmetic. Returns false if the value is not
/// known here: in device memory, complex, or half.
bool read_scalar(const Context& context, gpemu_data_type type, const void* scalar, double* value);

/// What a call with `beta` does with C. A value that read_scalar() does not know overwrites C.
Content content_after(const Context& context, gpemu_data_type type, const void* beta);

/// What a call does with its result, which may be where one of its operands is.
constexpr Content content_after(const void* result, const void* operand) {
  return result == operand ? Content::kUpdated : Content::kOverwritten;
}

/// Returns whether `value` is one of cublasOperation_t.
constexpr bool is_transpose(int value) {
  return value >= kNone && value <= kConjugated;
}

/// Returns whether a leading dimension holds `rows` rows.
constexpr bool holds(int64_t leading, int64_t rows) {
  return leading >= (rows > 1 ? rows : 1);
}

/// Expands `FAMILY(name, type, Int)` for the 32-bit function and its 64-bit variant.
#define GPEMU_BLAS_BOTH(FAMILY, name, type) \
  FAMILY(name, type, int)                   \
  FAMILY(name##_64, type, int64_t)

/// The same for the four types that a function is named after, with a letter between two parts.
#define GPEMU_BLAS_REAL(FAMILY, function)                     \
  GPEMU_BLAS_BOTH(FAMILY, cublasS##function, GPEMU_TYPE_FP32) \
  GPEMU_BLAS_BOTH(FAMILY, cublasD##function, GPEMU_TYPE_FP64)
#define GPEMU_BLAS_COMPLEX(FAMILY, function)                       \
  GPEMU_BLAS_BOTH(FAMILY, cublasC##function, GPEMU_TYPE_COMPLEX64) \
  GPEMU_BLAS_BOTH(FAMILY, cublasZ##function, GPEMU_TYPE_COMPLEX128)
#define GPEMU_BLAS_ALL(FAMILY, function) \
  GPEMU_BLAS_REAL(FAMILY, function)      \
  GPEMU_BLAS_COMPLEX(FAMILY, function)
