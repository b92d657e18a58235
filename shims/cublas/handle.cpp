// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <memory>

#include "abi.hpp"
#include "cublas.hpp"
#include "handle_table.hpp"

// A cuBLAS handle can be used as a cuBLASLt handle (cuBLAS documentation, "cublasLtHandle_t"), so
// it is one: cuBLASLt creates it.
extern "C" {
int cublasLtCreate(void** handle);
int cublasLtDestroy(void* handle);
}

namespace {

template <typename Value>
int get(const void* handle, Value Context::* member, Value* value) {
  const Context* const context = find_object<Context>(handle);
  if (context == nullptr) {
    return kNotInitialized;
  }
  if (value == nullptr) {
    return kInvalidValue;
  }
  *value = context->*member;
  return kSuccess;
}

template <typename Value>
int set(const void* handle, Value Context::* member, Value value, bool valid) {
  Context* const context = find_object<Context>(handle);
  if (context == nullptr) {
    return kNotInitialized;
  }
  if (!valid) {
    return kInvalidValue;
  }
  context->*member = value;
  return kSuccess;
}

}  // namespace

bool allows_tf32(const Context& context) {
  return (context.math_mode & kMathModes) == kTf32Mode;
}

int submit(const Context& context, const Work& work, std::initializer_list<int64_t> shape) {
  gpemu_operation operation{};
  operation.struct_size = sizeof(operation);
  operation.kind = work.kind;
  operation.type = work.type;
  operation.compute_type = work.compute_type;
  operation.access = work.access;
  operation.name = work.function;
  size_t i = 0;
  for (const int64_t entry : shape) {
    operation.shape[i++] = entry;
  }
  return status_of(gpemu_cuda_submit(&operation, context.stream));
}

bool read_scalar(const Context& context, gpemu_data_type type, const void* scalar, double* value) {
  if (context.pointer_mode != kHostPointer || scalar == nullptr) {
    return false;
  }
  if (type == GPEMU_TYPE_FP64) {
    *value = *static_cast<const double*>(scalar);
    return true;
  }
  if (type == GPEMU_TYPE_FP32) {
    *value = *static_cast<const float*>(scalar);
    return true;
  }
  return false;
}

Content content_after(const Context& context, gpemu_data_type type, const void* beta) {
  double value = 0;
  return read_scalar(context, type, beta, &value) && value != 0 ? Content::kUpdated
                                                                : Content::kOverwritten;
}

int write(void* destination, const void* source, uint64_t bytes) {
  gpemu_cuda_pointer info{};
  if (const auto status = gpemu_cuda_pointer_info(address_of(destination), &info);
      status != GPEMU_CUDA_SUCCESS) {
    return status_of(status);
  }
  if (info.kind != GPEMU_CUDA_MEMORY_DEVICE) {
    std::memcpy(destination, source, bytes);
    return kSuccess;
  }
  return status_of(gpemu_cuda_poke(address_of(destination), source, bytes));
}

int leave_uncomputed(int status, const Context& context, const char* function, gpemu_data_type type,
                     std::initializer_list<Written> results) {
  const int64_t element_bytes = gpemu_data_type_bytes(type);
  for (const Written& written : results) {
    if (status != kSuccess) {
      return status;
    }
    if (written.rows <= 0 || written.columns <= 0) {
      continue;
    }
    // Vectors with a negative distance begin at their last element, which is the first in memory.
    const int64_t width = written.leading < 0 ? -element_bytes : element_bytes;
    gpemu_cuda_result result{};
    if (!count_bytes(written.rows, element_bytes, &result.bytes) ||
        !count_bytes(written.leading, width, &result.pitch) || written.count > UINT32_MAX) {
      return kInvalidValue;
    }
    result.address = address_of(written.elements);
    result.rows = static_cast<uint64_t>(written.columns);
    result.updates = written.content == Content::kUpdated ? 1 : 0;
    result.matrices = static_cast<uint32_t>(written.count);
    status = status_of(gpemu_cuda_leave_uncomputed(&result, function, context.stream));
  }
  return status;
}

int put_result(const Context& context, void* result, const void* value, uint64_t bytes) {
  if (context.pointer_mode != kHostPointer) {
    return write(result, value, bytes);
  }
  if (const int status = status_of(gpemu_cuda_stream_synchronize(context.stream));
      status != kSuccess) {
    return status;
  }
  std::memcpy(result, value, bytes);
  return kSuccess;
}

int put_zero(const Context& context, void* result, uint64_t bytes) {
  constexpr char kZeros[16] = {};  // a complex number of two FP64
  if (bytes > sizeof(kZeros)) {
    return kInvalidValue;
  }
  if (const int status = put_result(context, result, kZeros, bytes); status != kSuccess) {
    return status;
  }
  gpemu_cuda_result written{};  // Nothing, in memory of the host.
  written.address = address_of(result);
  written.bytes = bytes;
  written.rows = 1;
  return status_of(gpemu_cuda_leave_uncomputed(&written, "a scalar of cuBLAS", context.stream));
}

GPEMU_SHIM_EXPORT int cublasCreate_v2(void** handle) {
  if (handle == nullptr) {
    return kInvalidValue;
  }
  void* created = nullptr;
  if (const int status = cublasLtCreate(&created); status != kSuccess) {
    return status;
  }
  alive<Context>().add(created, std::make_unique<Context>());
  *handle = created;
  return kSuccess;
}

GPEMU_SHIM_EXPORT int cublasDestroy_v2(void* handle) {
  return alive<Context>().remove(handle) ? cublasLtDestroy(handle)
                                         : static_cast<int>(kNotInitialized);
}

GPEMU_SHIM_EXPORT int cublasSetStream_v2(void* handle, gpemu_cuda_stream_handle stream) {
  return set(handle, &Context::stream, stream, true);
}

GPEMU_SHIM_EXPORT int cublasGetStream_v2(void* handle, gpemu_cuda_stream_handle* stream) {
  return get(handle, &Context::stream, stream);
}

GPEMU_SHIM_EXPORT int cublasSetMathMode(void* handle, int mode) {
  const bool valid = mode >= 0 && (mode & kMathModes) <= kHighestMathMode;
  return set(handle, &Context::math_mode, mode, valid);
}

GPEMU_SHIM_EXPORT int cublasGetMathMode(void* handle, int* mode) {
  return get(handle, &Context::math_mode, mode);
}

GPEMU_SHIM_EXPORT int cublasSetPointerMode_v2(void* handle, int mode) {
  return set(handle, &Context::pointer_mode, mode, mode == kHostPointer || mode == kDevicePointer);
}

GPEMU_SHIM_EXPORT int cublasGetPointerMode_v2(void* handle, int* mode) {
  return get(handle, &Context::pointer_mode, mode);
}

GPEMU_SHIM_EXPORT int cublasSetAtomicsMode(void* handle, int mode) {
  return set(handle, &Context::atomics_mode, mode, mode == kNoAtomics || mode == kAtomics);
}

GPEMU_SHIM_EXPORT int cublasGetAtomicsMode(void* handle, int* mode) {
  return get(handle, &Context::atomics_mode, mode);
}

GPEMU_SHIM_EXPORT int cublasSetSmCountTarget(void* handle, int count) {
  return set(handle, &Context::sm_count_target, count, count >= 0);
}

GPEMU_SHIM_EXPORT int cublasGetSmCountTarget(void* handle, int* count) {
  return get(handle, &Context::sm_count_target, count);
}

// The workspace does not change what an operation costs.
GPEMU_SHIM_EXPORT int cublasSetWorkspace_v2(void* handle, void* workspace, size_t bytes) {
  if (find_object<Context>(handle) == nullptr) {
    return kNotInitialized;
  }
  const bool aligned = address_of(workspace) % 256 == 0;
  return aligned && (workspace != nullptr || bytes == 0) ? kSuccess : kInvalidValue;
}
