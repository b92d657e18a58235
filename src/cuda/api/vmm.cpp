// SPDX-License-Identifier: Apache-2.0
#include "vmm.hpp"

#include "gpemu/cuda.h"
#include "gpemu/memory/memory_state.hpp"
#include "gpemu/streams/context.hpp"

namespace cuda = gpemu::cuda;
namespace memory = gpemu::memory;
namespace process = gpemu::process;
namespace streams = gpemu::streams;

gpemu_cuda_status gpemu_cuda_vmm_granularity(int32_t device, uint64_t* bytes) try {
  if (bytes == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  GPEMU_CUDA_TRY(process::attach());
  if (device < 0 || device >= process::device_count()) return GPEMU_CUDA_ERROR_INVALID_DEVICE;
  *bytes = memory::kPage;
  return GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_vmm_create(int32_t device, uint64_t bytes, int32_t exportable,
                                        uint64_t* handle) try {
  if (handle == nullptr || bytes == 0 || !memory::whole_pages(bytes)) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  process::DeviceState* found = nullptr;
  GPEMU_CUDA_TRY(streams::device_with_context(device, &found));
  return cuda::create_physical(*found, bytes, exportable != 0, handle);
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_vmm_release(uint64_t handle) try {
  GPEMU_CUDA_TRY(process::attach());
  return cuda::release_physical(handle);
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_vmm_retain(uint64_t address, uint64_t* handle) try {
  if (handle == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  GPEMU_CUDA_TRY(process::attach());
  return cuda::retain_physical(address, handle);
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_vmm_properties(uint64_t handle, int32_t* device,
                                            int32_t* exportable) try {
  if (device == nullptr || exportable == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  GPEMU_CUDA_TRY(process::attach());
  bool can = false;
  GPEMU_CUDA_TRY(cuda::describe_physical(handle, device, &can));
  *exportable = can ? 1 : 0;
  return GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_vmm_reserve(uint64_t bytes, uint64_t alignment, uint64_t /*wanted*/,
                                         uint64_t* address) try {
  // The wanted address is a hint that CUDA need not follow either.
  if (address == nullptr || bytes == 0 || !memory::whole_pages(bytes) ||
      (alignment & (alignment - 1)) != 0) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  GPEMU_CUDA_TRY(process::attach());
  return cuda::reserve_addresses(bytes, alignment, address);
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_vmm_unreserve(uint64_t address, uint64_t bytes) try {
  GPEMU_CUDA_TRY(process::attach());
  return cuda::release_addresses(address, bytes);
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_vmm_map(uint64_t address, uint64_t bytes, uint64_t offset,
                                     uint64_t handle) try {
  GPEMU_CUDA_TRY(process::attach());
  return cuda::map_physical(address, bytes, offset, handle);
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_vmm_unmap(uint64_t address, uint64_t bytes) try {
  GPEMU_CUDA_TRY(process::attach());
  return cuda::unmap_physical(address, bytes);
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_vmm_set_access(uint64_t address, uint64_t bytes, int32_t device,
                                            uint32_t access) try {
  GPEMU_CUDA_TRY(process::attach());
  if (device < 0 || device >= process::device_count()) return GPEMU_CUDA_ERROR_INVALID_DEVICE;
  return cuda::set_access(address, bytes, device, access);
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_vmm_get_access(uint64_t address, int32_t device,
                                            uint32_t* access) try {
  if (access == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  GPEMU_CUDA_TRY(process::attach());
  if (device < 0 || device >= process::device_count()) return GPEMU_CUDA_ERROR_INVALID_DEVICE;
  return cuda::get_access(address, device, access);
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_vmm_export(uint64_t handle, int32_t* file_descriptor) try {
  if (file_descriptor == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  GPEMU_CUDA_TRY(process::attach());
  return cuda::export_physical(handle, file_descriptor);
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_vmm_import(int32_t file_descriptor, uint64_t* handle) try {
  if (handle == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  GPEMU_CUDA_TRY(process::attach());
  return cuda::import_physical(file_descriptor, handle);
}
GPEMU_CUDA_CATCH
