// SPDX-License-Identifier: Apache-2.0
#include "memory.hpp"

#include "gpemu/cuda.h"
#include "gpemu/memory/allocation.hpp"
#include "gpemu/memory/managed.hpp"
#include "gpemu/streams/context.hpp"

#include "capture.hpp"
#include "copy.hpp"
#include "pool.hpp"
#include "prefetch.hpp"
#include "stream.hpp"

namespace cuda = gpemu::cuda;
namespace memory = gpemu::memory;
namespace process = gpemu::process;
namespace streams = gpemu::streams;

gpemu_cuda_status gpemu_cuda_malloc(uint64_t bytes, uint64_t* address) try {
  if (address == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  return cuda::allocate(bytes, memory::Origin::kMalloc, address);
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_malloc_managed(uint64_t bytes, uint32_t flags, uint64_t* address) try {
  // 1: attached to all streams, 2: to the host. Source: cudaMemAttachGlobal, cudaMemAttachHost.
  if (address == nullptr || (flags != 1 && flags != 2) || bytes == 0) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  return cuda::allocate(bytes, memory::Origin::kManaged, address);
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_advise(uint64_t address, uint64_t bytes, int32_t advice,
                                    int32_t place) try {
  GPEMU_CUDA_TRY(process::attach());
  return memory::advise_managed(address, bytes, advice, place);
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_prefetch(uint64_t address, uint64_t bytes, int32_t place,
                                      gpemu_cuda_stream_handle stream) try {
  gpemu_cuda_stream* found = nullptr;
  GPEMU_CUDA_TRY(cuda::resolve_for_work(stream, &found));
  return cuda::prefetch_managed(address, bytes, place, *found);
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_managed_info(uint64_t address, uint64_t bytes,
                                          gpemu_cuda_managed_range* range) try {
  if (range == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  GPEMU_CUDA_TRY(process::attach());
  return memory::describe_managed(address, bytes, range);
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_free(uint64_t address) try { return cuda::free_memory(address); }
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_host_alloc(uint64_t bytes, uint32_t flags, void** pointer) try {
  if (pointer == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  process::DeviceState* device = nullptr;
  GPEMU_CUDA_TRY(streams::enter_context(&device));
  if (bytes == 0) {
    *pointer = nullptr;
    return GPEMU_CUDA_SUCCESS;
  }
  return memory::allocate_host(bytes, flags, pointer);
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_host_free(void* pointer) try {
  GPEMU_CUDA_TRY(process::attach());
  if (pointer == nullptr) return GPEMU_CUDA_SUCCESS;
  return memory::free_block(reinterpret_cast<std::uint64_t>(pointer), true);
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_host_register(void* pointer, uint64_t bytes, uint32_t flags) try {
  if (pointer == nullptr || bytes == 0) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  process::DeviceState* device = nullptr;
  GPEMU_CUDA_TRY(streams::enter_context(&device));
  // Source: github.com/vllm-project/vllm/issues/46933.
  GPEMU_CUDA_TRY(cuda::check_unsafe_call());
  return memory::register_host(pointer, bytes, flags);
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_host_unregister(void* pointer) try {
  GPEMU_CUDA_TRY(process::attach());
  GPEMU_CUDA_TRY(cuda::check_unsafe_call());
  return memory::unregister_host(pointer);
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_pointer_info(uint64_t address, gpemu_cuda_pointer* info) try {
  if (info == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  GPEMU_CUDA_TRY(process::attach());
  *info = memory::describe_pointer(address);
  info->pool = cuda::pool_of(address);
  return GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_copy_memory(const gpemu_cuda_copy* copy,
                                         gpemu_cuda_stream_handle stream, int32_t blocking) try {
  if (copy == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  if (copy->kind < GPEMU_CUDA_COPY_HOST_TO_HOST || copy->kind > GPEMU_CUDA_COPY_DEFAULT) {
    return GPEMU_CUDA_ERROR_INVALID_MEMCPY_DIRECTION;
  }
  gpemu_cuda_stream* found = nullptr;
  GPEMU_CUDA_TRY(cuda::resolve_for_work(stream, &found));
  if (cuda::capturing(*found)) {
    if (blocking != 0) return cuda::refuse_captured(*found);
    gpemu_cuda_node_parameters node{.kind = GPEMU_CUDA_NODE_COPY};
    node.copy = *copy;
    return cuda::capture(*found, node);
  }
  if (blocking != 0) GPEMU_CUDA_TRY(cuda::check_wait(*found->device));
  return cuda::run_copy(*copy, *found, blocking != 0);
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_memcpy(uint64_t destination, uint64_t source, uint64_t bytes,
                                    gpemu_cuda_copy_kind kind, gpemu_cuda_stream_handle stream,
                                    int32_t blocking) try {
  const gpemu_cuda_copy copy{.destination = destination,
                             .source = source,
                             .width_bytes = bytes,
                             .height = 1,
                             .depth = 1,
                             .kind = kind};
  return gpemu_cuda_copy_memory(&copy, stream, blocking);
}
GPEMU_CUDA_CATCH

// NOLINTNEXTLINE(readability-function-size): the arguments of cuMemsetD2D32Async.
gpemu_cuda_status gpemu_cuda_set_memory(uint64_t address, uint64_t pitch, uint32_t value,
                                        uint32_t element_bytes, uint64_t count, uint64_t height,
                                        gpemu_cuda_stream_handle stream) try {
  if (element_bytes != 1 && element_bytes != 2 && element_bytes != 4) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  gpemu_cuda_stream* found = nullptr;
  GPEMU_CUDA_TRY(cuda::resolve_for_work(stream, &found));
  gpemu_cuda_node_parameters node{.kind = GPEMU_CUDA_NODE_SET};
  node.set_address = address;
  node.set_pitch = pitch;
  node.set_value = element_bytes == 1 ? value & 0xff : element_bytes == 2 ? value & 0xffff : value;
  node.set_element_bytes = element_bytes;
  node.set_count = count;
  node.set_height = height;
  return cuda::capturing(*found) ? cuda::capture(*found, node) : cuda::run_set(node, *found);
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_poke(uint64_t address, const void* data, uint64_t bytes) try {
  if (data == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  GPEMU_CUDA_TRY(process::attach());
  return cuda::poke(address, data, bytes);
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_peek(uint64_t address, void* data, uint64_t bytes) try {
  if (data == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  GPEMU_CUDA_TRY(process::attach());
  return cuda::peek(address, data, bytes);
}
GPEMU_CUDA_CATCH
