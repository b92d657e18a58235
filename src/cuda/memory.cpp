// SPDX-License-Identifier: Apache-2.0
#include "memory.hpp"

#include "gpemu/memory/allocation.hpp"
#include "gpemu/process/faults.hpp"
#include "gpemu/streams/context.hpp"

#include "capture.hpp"
#include "pool.hpp"
#include "synchronize.hpp"

namespace gpemu::cuda {

process::Status allocate(Bytes bytes, memory::Origin origin, std::uint64_t* address) {
  process::DeviceState* device = nullptr;
  GPEMU_CUDA_TRY(streams::current_device(&device));
  GPEMU_CUDA_TRY(check_unsafe_call());
  if (bytes == 0) {
    *address = 0;
    return GPEMU_CUDA_SUCCESS;
  }
  const process::Status status = memory::allocate_on(*device, bytes, origin, address);
  if (status != GPEMU_CUDA_ERROR_OUT_OF_MEMORY || !reclaim_pooled(*device)) return status;
  return memory::allocate_on(*device, bytes, origin, address);
}

process::Status free_memory(std::uint64_t address) {
  process::DeviceState* device = nullptr;
  GPEMU_CUDA_TRY(streams::current_device(&device));
  if (address == 0) return GPEMU_CUDA_SUCCESS;
  GPEMU_CUDA_TRY(check_unsafe_call());
  synchronize(*device);
  GPEMU_CUDA_TRY(process::check_device(*device));
  if (forget_pooled(address)) return GPEMU_CUDA_SUCCESS;
  return memory::free_block(address, false);
}

}  // namespace gpemu::cuda
