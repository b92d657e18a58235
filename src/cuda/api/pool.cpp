// SPDX-License-Identifier: Apache-2.0
#include "pool.hpp"

#include "gpemu/cuda.h"
#include "gpemu/streams/context.hpp"

#include "capture.hpp"
#include "stream.hpp"

namespace cuda = gpemu::cuda;
namespace process = gpemu::process;
namespace streams = gpemu::streams;

gpemu_cuda_status gpemu_cuda_pool_create(int32_t device, uint64_t max_bytes,
                                         gpemu_cuda_pool_handle* pool) try {
  if (pool == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  process::DeviceState* found = nullptr;
  GPEMU_CUDA_TRY(streams::device_with_context(device, &found));
  return cuda::create_pool(*found, max_bytes, pool);
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_pool_destroy(gpemu_cuda_pool_handle pool) try {
  GPEMU_CUDA_TRY(process::attach());
  if (pool == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  return cuda::destroy_pool(pool);
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_pool_default(int32_t device, gpemu_cuda_pool_handle* pool) try {
  if (pool == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  process::DeviceState* found = nullptr;
  GPEMU_CUDA_TRY(streams::device_with_context(device, &found));
  return cuda::default_pool(*found, pool);
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_pool_current(int32_t device, gpemu_cuda_pool_handle* pool) try {
  if (pool == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  process::DeviceState* found = nullptr;
  const gpemu_cuda_status status = streams::device_with_context(device, &found);
  // Other functions call it an invalid device. Source: an H200, driver 580.159.
  if (status == GPEMU_CUDA_ERROR_INVALID_DEVICE) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  GPEMU_CUDA_TRY(status);
  return cuda::current_pool(*found, pool);
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_pool_set_current(int32_t device, gpemu_cuda_pool_handle pool) try {
  process::DeviceState* found = nullptr;
  GPEMU_CUDA_TRY(streams::device_with_context(device, &found));
  return cuda::set_current_pool(*found, pool);
}
GPEMU_CUDA_CATCH

// A capture forbids reading and setting attributes, but not looking for a device's pool. Source:
// github.com/NVIDIA/cccl/pull/11360.
gpemu_cuda_status gpemu_cuda_pool_get(gpemu_cuda_pool_handle pool,
                                      gpemu_cuda_pool_attribute attribute, uint64_t* value) try {
  if (value == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  GPEMU_CUDA_TRY(process::attach());
  GPEMU_CUDA_TRY(cuda::check_unsafe_call());
  return cuda::get_pool_value(pool, attribute, value);
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_pool_set(gpemu_cuda_pool_handle pool,
                                      gpemu_cuda_pool_attribute attribute, uint64_t value) try {
  GPEMU_CUDA_TRY(process::attach());
  GPEMU_CUDA_TRY(cuda::check_unsafe_call());
  return cuda::set_pool_value(pool, attribute, value);
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_pool_set_access(gpemu_cuda_pool_handle pool, int32_t device,
                                             int32_t read_write) try {
  GPEMU_CUDA_TRY(process::attach());
  if (device < 0 || device >= process::device_count()) return GPEMU_CUDA_ERROR_INVALID_DEVICE;
  return cuda::set_pool_access(pool, device, read_write != 0);
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_pool_get_access(gpemu_cuda_pool_handle pool, int32_t device,
                                             int32_t* read_write) try {
  if (read_write == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  GPEMU_CUDA_TRY(process::attach());
  if (device < 0 || device >= process::device_count()) return GPEMU_CUDA_ERROR_INVALID_DEVICE;
  bool can = false;
  GPEMU_CUDA_TRY(cuda::get_pool_access(pool, device, &can));
  *read_write = can ? 1 : 0;
  return GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_pool_trim(gpemu_cuda_pool_handle pool, uint64_t keep_bytes) try {
  GPEMU_CUDA_TRY(process::attach());
  GPEMU_CUDA_TRY(cuda::check_unsafe_call());  // As cudaFree.
  return cuda::trim_pool(pool, keep_bytes);
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_malloc_async(uint64_t bytes, gpemu_cuda_pool_handle pool,
                                          gpemu_cuda_stream_handle stream, uint64_t* address) try {
  if (address == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  gpemu_cuda_stream* queue = nullptr;
  GPEMU_CUDA_TRY(cuda::resolve_for_work(stream, &queue));
  return cuda::allocate_async(bytes, pool, *queue, address);
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_free_async(uint64_t address, gpemu_cuda_stream_handle stream) try {
  gpemu_cuda_stream* queue = nullptr;
  GPEMU_CUDA_TRY(cuda::resolve_for_work(stream, &queue));
  return cuda::free_async(address, *queue);
}
GPEMU_CUDA_CATCH
