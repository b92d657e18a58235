// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>

#include "cudnn.hpp"

gpemu_data_type type_of(int data_type) {
  switch (data_type) {
    case kFloatData:
      return GPEMU_TYPE_FP32;
    case kDoubleData:
      return GPEMU_TYPE_FP64;
    case kHalfData:
      return GPEMU_TYPE_FP16;
    case kInt8Data:
    case kInt8x4Data:
    case kUint8Data:
    case kUint8x4Data:
    case kInt8x32Data:
    case kBooleanData:
    case kByteBooleanData:
      return GPEMU_TYPE_INT8;
    case kInt32Data:
    case kUint32Data:
      return GPEMU_TYPE_INT32;
    case kBfloat16Data:
      return GPEMU_TYPE_BF16;
    case kInt64Data:
      return GPEMU_TYPE_INT64;
    case kFp8E4m3Data:
    case kFp8E5m2Data:
    case kFp8E8m0Data:
    case kFp8E5m3Data:
    case kFp4E2m1Data:  // counts as FP8
      return GPEMU_TYPE_FP8;
    case kComplexFp32Data:
      return GPEMU_TYPE_COMPLEX64;
    case kComplexFp64Data:
      return GPEMU_TYPE_COMPLEX128;
    default:
      return GPEMU_TYPE_UNKNOWN;
  }
}

const gpemu_cuda_device* current_device() {
  int32_t device = 0;
  const gpemu_cuda_device* info = nullptr;
  if (gpemu_cuda_current_device(&device) != GPEMU_CUDA_SUCCESS ||
      gpemu_cuda_get_device(device, &info) != GPEMU_CUDA_SUCCESS) {
    return nullptr;
  }
  return info;
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
