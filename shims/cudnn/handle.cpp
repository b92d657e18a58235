// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>

#include "cudnn.hpp"

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
    case 12:  // FP8 and smaller types
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
  Context* const context = find_object<Context>(handle);
  if (context == nullptr) {
    return kBadParam;
  }
  context->stream = stream;
  return kSuccess;
}

GPEMU_SHIM_EXPORT int cudnnGetStream(void* handle, gpemu_cuda_stream_handle* stream) {
  const Context* const context = find_object<Context>(handle);
  if (context == nullptr || stream == nullptr) {
    return kBadParam;
  }
  *stream = context->stream;
  return kSuccess;
}
