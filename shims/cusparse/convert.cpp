// SPDX-License-Identifier: Apache-2.0
// Conversions and sorts of indices. Programs read them back, so they are computed at once, from the
// content of the memory at the time of the call.
#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "cusparse.hpp"

namespace {

using Indices = std::vector<int>;

/// Returns whether memory of the device holds so many indices. The number is the caller's: without
/// this, one that is out of range would take as much memory of the host.
bool holds(const int* address, int64_t count) {
  int last = 0;
  const uint64_t before_last = static_cast<uint64_t>(count - 1) * sizeof(last);
  return count == 0 || gpemu_cuda_peek(address_of(address) + before_last, &last, sizeof(last)) ==
                           GPEMU_CUDA_SUCCESS;
}

int read(const int* address, Indices& indices) {
  const int status = indices.empty() ? GPEMU_CUDA_SUCCESS
                                     : gpemu_cuda_peek(address_of(address), indices.data(),
                                                       indices.size() * sizeof(int));
  return status == GPEMU_CUDA_SUCCESS ? kSuccess : kInvalidValue;
}

int write(int* address, const Indices& indices) {
  const int status = indices.empty() ? GPEMU_CUDA_SUCCESS
                                     : gpemu_cuda_poke(address_of(address), indices.data(),
                                                       indices.size() * sizeof(int));
  return status == GPEMU_CUDA_SUCCESS ? kSuccess : kExecutionFailed;
}

/// Reorders indices in memory; does nothing for null.
int reorder(int* address, const Indices& order) {
  if (address == nullptr) {
    return kSuccess;
  }
  Indices before(order.size());
  if (const int status = read(address, before); status != kSuccess) {
    return status;
  }
  Indices after;
  after.reserve(order.size());
  for (const int position : order) {
    after.push_back(before[static_cast<size_t>(position)]);
  }
  return write(address, after);
}

Indices positions_of(int entries) {
  Indices positions(static_cast<size_t>(entries));
  std::iota(positions.begin(), positions.end(), 0);
  return positions;
}

int compress_rows(const int* rows, int entries, int count, int* offsets, int base) {
  if (!holds(rows, entries) || !holds(offsets, int64_t{count} + 1)) {
    return kInvalidValue;
  }
  Indices row_of(static_cast<size_t>(entries));
  if (const int status = read(rows, row_of); status != kSuccess) {
    return status;
  }
  // Rows outside the matrix count as its first or last, so the last offset is the number of
  // entries.
  Indices result(static_cast<size_t>(count) + 1, 0);
  for (const int row : row_of) {
    const int64_t next = std::clamp<int64_t>(int64_t{row} - base + 1, 0, count);
    ++result[static_cast<size_t>(next)];
  }
  std::partial_sum(result.begin(), result.end(), result.begin());
  for (int& offset : result) {
    offset += base;
  }
  return write(offsets, result);
}

int sort_by_row(int entries, int* rows, int* columns, int* permutation) {
  if (!holds(rows, entries)) {
    return kInvalidValue;
  }
  Indices keys(static_cast<size_t>(entries));
  if (const int status = read(rows, keys); status != kSuccess) {
    return status;
  }
  Indices order = positions_of(entries);
  std::ranges::stable_sort(order, {}, [&](int at) { return keys[static_cast<size_t>(at)]; });
  for (int* const address : {rows, columns, permutation}) {
    if (const int status = reorder(address, order); status != kSuccess) {
      return status;
    }
  }
  return kSuccess;
}

/// Sorts the columns within each row.
int sort_rows(int count, int entries, const int* offsets, int* columns, int* permutation) {
  if (!holds(offsets, int64_t{count} + 1) || !holds(columns, entries)) {
    return kInvalidValue;
  }
  Indices ends(static_cast<size_t>(count) + 1);
  Indices keys(static_cast<size_t>(entries));
  int status = read(offsets, ends);
  status = status == kSuccess ? read(columns, keys) : status;
  if (status != kSuccess) {
    return status;
  }
  Indices order = positions_of(entries);
  for (size_t row = 0; row + 1 < ends.size(); ++row) {
    // The first offset is the index base.
    const int64_t first = std::clamp<int64_t>(int64_t{ends[row]} - ends[0], 0, entries);
    const int64_t last = std::clamp<int64_t>(int64_t{ends[row + 1]} - ends[0], first, entries);
    std::stable_sort(order.begin() + first, order.begin() + last, [&](int left, int right) {
      return keys[static_cast<size_t>(left)] < keys[static_cast<size_t>(right)];
    });
  }
  status = reorder(columns, order);
  return status == kSuccess ? reorder(permutation, order) : status;
}

bool valid_sizes(int rows, int columns, int entries) {
  return rows >= 0 && columns >= 0 && entries >= 0;
}

int answer_size(const void* handle, int rows, int columns, int entries, size_t* bytes) {
  if (find_object<Sparse>(handle) == nullptr) {
    return kNotInitialized;
  }
  if (!valid_sizes(rows, columns, entries) || bytes == nullptr) {
    return kInvalidValue;
  }
  *bytes = 16 * static_cast<size_t>(entries) + 256;  // keys and positions, twice
  return kSuccess;
}

// A radix sort passes four times over keys and positions, reading and writing each.
int submit_sort(const void* handle, const char* name, int entries) {
  return submit_sparse(handle, name, GPEMU_TYPE_INT32, 0, int64_t{64} * entries);
}

}  // namespace

GPEMU_SHIM_EXPORT int cusparseXcoo2csr(void* handle, const int* rows, int entries, int count,
                                       int* offsets, int base) {
  if (!valid_sizes(count, 0, entries) || (rows == nullptr && entries > 0) || offsets == nullptr ||
      base < 0 || base > kLastIndexBase) {
    return kInvalidValue;
  }
  const int status = submit_sparse(handle, "cusparseXcoo2csr", GPEMU_TYPE_INT32, 0,
                                   int64_t{4} * entries + int64_t{4} * count + 4);
  return status == kSuccess ? compress_rows(rows, entries, count, offsets, base) : status;
}
GPEMU_SHIM_EXPORT int cusparseCreateIdentityPermutation(void* handle, int entries, int* positions) {
  if (entries < 0 || !holds(positions, entries)) {
    return kInvalidValue;
  }
  const int status = submit_sparse(handle, "cusparseCreateIdentityPermutation", GPEMU_TYPE_INT32, 0,
                                   int64_t{4} * entries);
  return status == kSuccess ? write(positions, positions_of(entries)) : status;
}
GPEMU_SHIM_EXPORT int cusparseXcoosort_bufferSizeExt(void* handle, int rows, int columns,
                                                     int entries, const int*, const int*,
                                                     size_t* bytes) {
  return answer_size(handle, rows, columns, entries, bytes);
}
GPEMU_SHIM_EXPORT int cusparseXcoosortByRow(void* handle, int rows, int columns, int entries,
                                            int* row_indices, int* column_indices, int* permutation,
                                            void*) {
  if (!valid_sizes(rows, columns, entries) ||
      ((row_indices == nullptr || column_indices == nullptr) && entries > 0)) {
    return kInvalidValue;
  }
  const int status = submit_sort(handle, "cusparseXcoosortByRow", entries);
  return status == kSuccess ? sort_by_row(entries, row_indices, column_indices, permutation)
                            : status;
}
GPEMU_SHIM_EXPORT int cusparseXcsrsort_bufferSizeExt(void* handle, int rows, int columns,
                                                     int entries, const int*, const int*,
                                                     size_t* bytes) {
  return answer_size(handle, rows, columns, entries, bytes);
}
GPEMU_SHIM_EXPORT int cusparseXcsrsort(void* handle, int rows, int columns, int entries,
                                       const void*, const int* offsets, int* column_indices,
                                       int* permutation, void*) {
  if (!valid_sizes(rows, columns, entries) || offsets == nullptr ||
      (column_indices == nullptr && entries > 0)) {
    return kInvalidValue;
  }
  const int status = submit_sort(handle, "cusparseXcsrsort", entries);
  return status == kSuccess ? sort_rows(rows, entries, offsets, column_indices, permutation)
                            : status;
}
