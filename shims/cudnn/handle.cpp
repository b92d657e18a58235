// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <memory>

#include "dnn.hpp"

namespace {

// The newest cuDNN: PyTorch refuses one older than the one that it was built with.
constexpr int kVersion[] = {9, 26, 0};
// One shared object serves CUDA 12 and 13; callers compare the major number at most.
constexpr size_t kCudartVersion = 13020;

}  // namespace

gpemu_data_type type_of(int data_type) {
  switch (data_type) {
    case 0:
      return GPEMU_TYPE_FP32;
    case 1:
      return GPEMU_TYPE_FP64;
    case 2:
      return GPEMU_TYPE_FP16;
    case 3:  // 8-bit integers and booleans, vectorised or not
    case 5:
    case 6:
    case 7:
    case 8:
    case 11:
    case 22:
      return GPEMU_TYPE_INT8;
    case 4:
    case 19:
      return GPEMU_TYPE_INT32;
    case 9:
      return GPEMU_TYPE_BF16;
    case 10:
      return GPEMU_TYPE_INT64;
    case 12:  // FP8 and what is smaller
    case 13:
    case 15:
    case 16:
    case 23:
      return GPEMU_TYPE_FP8;
    case 20:
      return GPEMU_TYPE_COMPLEX64;
    case 21:
      return GPEMU_TYPE_COMPLEX128;
    default:
      return GPEMU_TYPE_UNKNOWN;
  }
}

int status_of(gpemu_cuda_status status) {
  switch (status) {
    case GPEMU_CUDA_SUCCESS:
      return kSuccess;
    case GPEMU_CUDA_ERROR_NOT_INITIALIZED:
    case GPEMU_CUDA_ERROR_NO_DEVICE:
      return kNotInitialized;
    case GPEMU_CUDA_ERROR_OUT_OF_MEMORY:
      return kDeviceAllocationFailed;
    default:
      return kExecutionFailed;
  }
}

int compute_capability_major() {
  int32_t device = 0;
  const gpemu_cuda_device* info = nullptr;
  if (gpemu_cuda_current_device(&device) != GPEMU_CUDA_SUCCESS ||
      gpemu_cuda_get_device(device, &info) != GPEMU_CUDA_SUCCESS) {
    return 0;
  }
  return info->major;
}

gpemu_operation make_operation(const char* name, gpemu_operation_kind kind, gpemu_data_type type,
                               std::initializer_list<int64_t> shape) {
  gpemu_operation operation{};
  operation.struct_size = sizeof(operation);
  operation.kind = kind;
  operation.type = type;
  operation.compute_type = type;
  operation.name = name;
  std::ranges::copy(shape, operation.shape);
  return operation;
}

int submit(const Context& context, const gpemu_operation& operation) {
  return status_of(gpemu_cuda_submit(&operation, context.stream));
}

GPEMU_SHIM_EXPORT int cudnnCreate(void** handle) {
  if (handle == nullptr) {
    return kNullPointer;
  }
  if (const int status = status_of(gpemu_cuda_ensure_context()); status != kSuccess) {
    return status;
  }
  *handle = alive<Context>().add(std::make_unique<Context>());
  return kSuccess;
}

GPEMU_SHIM_EXPORT int cudnnDestroy(void* handle) {
  return alive<Context>().remove(handle) ? kSuccess : kBadParam;
}

GPEMU_SHIM_EXPORT int cudnnSetStream(void* handle, gpemu_cuda_stream_handle stream) {
  Context* const context = find<Context>(handle);
  if (context == nullptr) {
    return kBadParam;
  }
  context->stream = stream;
  return kSuccess;
}

GPEMU_SHIM_EXPORT int cudnnGetStream(void* handle, gpemu_cuda_stream_handle* stream) {
  const Context* const context = find<Context>(handle);
  if (context == nullptr || stream == nullptr) {
    return kBadParam;
  }
  *stream = context->stream;
  return kSuccess;
}

GPEMU_SHIM_EXPORT size_t cudnnGetVersion() {
  return size_t{kVersion[0]} * 10000 + size_t{kVersion[1]} * 100 + size_t{kVersion[2]};
}

GPEMU_SHIM_EXPORT size_t cudnnGetMaxDeviceVersion() {
  return 1210;  // compute capability 12.1
}

GPEMU_SHIM_EXPORT size_t cudnnGetCudartVersion() {
  return kCudartVersion;
}

GPEMU_SHIM_EXPORT int cudnnGetProperty(int type, int* value) {
  if (type < 0 || type > 2 || value == nullptr) {
    return kBadParam;
  }
  *value = kVersion[type];
  return kSuccess;
}

GPEMU_SHIM_EXPORT const char* cudnnGetErrorString(int status) {
  switch (status / 1000) {  // the thousands are the category
    case 0:
      return status == 0 ? "CUDNN_STATUS_SUCCESS" : "CUDNN_STATUS_UNKNOWN";
    case 1:
      return "CUDNN_STATUS_NOT_INITIALIZED";
    case 2:
      return "CUDNN_STATUS_BAD_PARAM";
    case 3:
      return "CUDNN_STATUS_NOT_SUPPORTED";
    case 4:
      return "CUDNN_STATUS_INTERNAL_ERROR";
    case 5:
      return "CUDNN_STATUS_EXECUTION_FAILED";
    default:
      return "CUDNN_STATUS_UNKNOWN";
  }
}

// Statuses say what there is to say.
GPEMU_SHIM_EXPORT void cudnnGetLastErrorString(char* message, size_t size) {
  if (message != nullptr && size > 0) {
    message[0] = '\0';
  }
}
