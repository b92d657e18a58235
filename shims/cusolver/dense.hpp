// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>

#include "cusolver.hpp"
#include "library_work.hpp"
#include "write_pieces.hpp"

/// Returns whether a matrix can have these sizes. Queries of the work area may lack the matrix
/// itself, as PyTorch's calls do.
bool valid_size(int64_t rows, int64_t columns, int64_t leading);

/// Returns whether a matrix is there and can have these sizes; an empty one may be null.
bool valid_matrix(int64_t rows, int64_t columns, const void* matrix, int64_t leading);

/// Returns whether a number names the upper or the lower part of a matrix.
bool valid_fill(int fill);

/// The priced work of one factorisation, solve or decomposition.
struct DenseWork {
  const char* name;
  gpemu_data_type type;
  double operations;  ///< real ones of a real matrix; a complex matrix takes four times as many
  double elements;    ///< read and written
};

/// A matrix that a call writes by columns, or `count` of them. Its values are real ones in a
/// complex decomposition, too, if `is_real`.
struct DenseResult {
  const void* values;
  int64_t rows, columns, leading;
  bool is_real = false;
  int64_t count = 1, stride = 0;  ///< elements from a matrix to the next
};

/// Queues the work on a solver's stream and sets `count` devInfo entries to zero: it succeeds.
///
/// Errors: NOT_INITIALIZED for a dead handle; INVALID_VALUE without devInfo, for an unknown type,
/// or for results that no memory holds. What is `written` is not computed.

int submit_dense(const void* handle, const DenseWork& work, void* info, int64_t count,
                 std::initializer_list<DenseResult> written);

/// Writes `count` integers to memory of the device, value(0) first.
template <typename Value>
int write_array(void* array, uint64_t count, Value value) {
  const auto write = [array](uint64_t first, const int* piece, uint64_t bytes) {
    return static_cast<int>(gpemu_cuda_poke(address_of(array) + first * sizeof(int), piece, bytes));
  };
  return write_pieces(count, value, write) == GPEMU_CUDA_SUCCESS ? kSuccess : kExecutionFailed;
}

/// Matrices whose addresses are in an array on the device.
struct DenseBatch {
  const void* addresses;
  int64_t rows, columns, leading, count;
};

/// Ends a call whose matrices are not computed, unless it failed with `status`.
int leave_batch(int status, const void* handle, const char* function, gpemu_data_type type,
                const DenseBatch& written);

/// Yields the size of a work area.
///
/// The real sizes are not documented; these are blocks of 32 columns, as blocked algorithms keep.
/// Errors: NOT_INITIALIZED; INVALID_VALUE for a null pointer, or beyond an int.
int answer_work_size(const void* handle, double elements, int* size);

/// The same for the functions of the 64-bit interface, in bytes; nothing is needed on the host.
/// Sizes beyond 64 bits are invalid values.
int answer_work_bytes(const void* handle, double elements, int type, size_t* device, size_t* host);

// Arithmetic operations. Source: LAPACK Working Note 41, appendix C, leading terms; eigenvalues
// and singular values: Golub and Van Loan, Matrix Computations, sections 5.4, 7.5 and 8.3.
double operations_of_getrf(double m, double n);
double operations_of_geqrf(double m, double n);
double operations_of_orgqr(double m, double n, double k);
double operations_of_svd(double m, double n, bool vectors);
double operations_of_syevd(double n, bool vectors);
