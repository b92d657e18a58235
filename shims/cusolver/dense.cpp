// SPDX-License-Identifier: Apache-2.0
#include "dense.hpp"

#include <algorithm>

#include <climits>

#include "library_types.hpp"

namespace {

bool is_complex(gpemu_data_type type) {
  return type == GPEMU_TYPE_COMPLEX64 || type == GPEMU_TYPE_COMPLEX128;
}

/// Leaves one result.
int leave(const Solver& solver, const DenseWork& work, const DenseResult& written) {
  if (written.values == nullptr || written.rows <= 0 || written.columns <= 0 ||
      written.count <= 0) {
    return kSuccess;
  }
  const int64_t element = gpemu_data_type_bytes(work.type);
  const int64_t width = written.is_real && is_complex(work.type) ? element / 2 : element;
  gpemu_cuda_result result = {};
  result.address = address_of(written.values);
  result.rows = static_cast<uint64_t>(written.columns);
  uint64_t stride = 0, count = static_cast<uint64_t>(written.count);
  if (!count_bytes(written.rows, width, &result.bytes) ||
      !count_bytes(written.leading, width, &result.pitch) ||
      !count_bytes(written.stride, width, &stride)) {
    return kInvalidValue;
  }
  // Matrices that follow each other like their own columns are one matrix.
  if (result.rows == 1 || (stride % result.rows == 0 && stride / result.rows == result.pitch)) {
    result.pitch = result.rows == 1 ? stride : result.pitch;
    if (__builtin_mul_overflow(result.rows, count, &result.rows)) {
      return kInvalidValue;
    }
    count = 1;
  }
  constexpr uint64_t kMostCalls = 4096;
  if (count > kMostCalls) {  // One range, in which the gaps keep their content.
    uint64_t last = 0, columns = 0;
    if (__builtin_mul_overflow(count - 1, stride, &last) ||
        __builtin_mul_overflow(result.rows - 1, result.pitch, &columns) ||
        __builtin_add_overflow(result.bytes, columns, &result.bytes) ||
        __builtin_add_overflow(result.bytes, last, &result.bytes)) {
      return kInvalidValue;
    }
    result.rows = 1;
    result.updates = 1;
    count = 1;
  }
  for (uint64_t i = 0; i < count; ++i, result.address += stride) {
    if (gpemu_cuda_leave_uncomputed(&result, work.name, solver.stream) != GPEMU_CUDA_SUCCESS) {
      return kExecutionFailed;
    }
  }
  return kSuccess;
}

}  // namespace

bool valid_size(int64_t rows, int64_t columns, int64_t leading) {
  return rows >= 0 && columns >= 0 && leading >= std::max<int64_t>(1, rows);
}

bool valid_matrix(int64_t rows, int64_t columns, const void* matrix, int64_t leading) {
  const bool is_empty = rows == 0 || columns == 0;
  return (matrix != nullptr || is_empty) && valid_size(rows, columns, leading);
}

bool valid_fill(int fill) {
  return fill >= 0 && fill <= kLastFill;
}

int submit_dense(const void* handle, const DenseWork& work, void* info, int64_t count,
                 std::initializer_list<DenseResult> written) {
  const Solver* const solver = find_object<Solver>(handle);
  if (solver == nullptr) {
    return kNotInitialized;
  }
  if (info == nullptr || count < 0 || work.type == GPEMU_TYPE_UNKNOWN) {
    return kInvalidValue;
  }
  gpemu_operation operation = {};
  operation.struct_size = sizeof(operation);
  operation.kind = GPEMU_OPERATION_OTHER;
  operation.type = work.type;
  operation.shape[0] = entry_of(work.operations * (is_complex(work.type) ? 4.0 : 1.0));
  operation.shape[1] = entry_of(work.elements * gpemu_data_type_bytes(work.type));
  operation.name = work.name;
  if (gpemu_cuda_submit(&operation, solver->stream) != GPEMU_CUDA_SUCCESS) {
    return kExecutionFailed;
  }
  for (const DenseResult& result : written) {
    if (const int status = leave(*solver, work, result); status != kSuccess) {
      return status;
    }
  }
  return write_array(info, static_cast<uint64_t>(count), [](uint64_t) { return 0; });
}

int leave_batch(int status, const void* handle, const char* function, gpemu_data_type type,
                const DenseBatch& written) {
  if (status != kSuccess || written.count == 0 || written.rows == 0 || written.columns == 0) {
    return status;
  }
  const auto width = static_cast<uint64_t>(gpemu_data_type_bytes(type));
  gpemu_cuda_result result = {};
  result.address = address_of(written.addresses);
  result.bytes = static_cast<uint64_t>(written.rows) * width;
  result.pitch = static_cast<uint64_t>(written.leading) * width;
  result.rows = static_cast<uint64_t>(written.columns);
  result.matrices = static_cast<uint32_t>(written.count);
  return gpemu_cuda_leave_uncomputed(&result, function, find_object<Solver>(handle)->stream) ==
                 GPEMU_CUDA_SUCCESS
             ? kSuccess
             : kExecutionFailed;
}

int answer_work_size(const void* handle, double elements, int* size) {
  if (find_object<Solver>(handle) == nullptr) {
    return kNotInitialized;
  }
  if (size == nullptr || elements < 0 || elements > INT_MAX) {
    return kInvalidValue;
  }
  *size = std::max(1, static_cast<int>(elements));
  return kSuccess;
}

int answer_work_bytes(const void* handle, double elements, int type, size_t* device, size_t* host) {
  if (find_object<Solver>(handle) == nullptr) {
    return kNotInitialized;
  }
  const gpemu_data_type known = type_of_cuda(type);
  const int64_t bytes = entry_of(std::max(1.0, elements) * gpemu_data_type_bytes(known));
  if (device == nullptr || host == nullptr || elements < 0 || known == GPEMU_TYPE_UNKNOWN ||
      bytes == kMostWork) {
    return kInvalidValue;
  }
  *device = static_cast<size_t>(bytes);
  *host = 0;
  return kSuccess;
}

double operations_of_getrf(double m, double n) {
  const double k = std::min(m, n);
  return 2 * (m * n * k - (m + n) * k * k / 2 + k * k * k / 3);
}

double operations_of_geqrf(double m, double n) {
  const double k = std::min(m, n);
  return 2 * std::max(m, n) * k * k - 2 * k * k * k / 3;
}

double operations_of_orgqr(double m, double n, double k) {
  return 4 * m * n * k - 2 * (m + n) * k * k + 4 * k * k * k / 3;
}

double operations_of_svd(double m, double n, bool vectors) {
  const double larger = std::max(m, n);
  const double k = std::min(m, n);
  return vectors ? 4 * larger * larger * k + 8 * larger * k * k + 9 * k * k * k
                 : 4 * larger * k * k - 4 * k * k * k / 3;
}

double operations_of_syevd(double n, bool vectors) {
  return (vectors ? 9.0 : 4.0 / 3.0) * n * n * n;
}
