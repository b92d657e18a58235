// SPDX-License-Identifier: Apache-2.0
#include "kernel_attribute.hpp"

#include <algorithm>

#include "device_attribute.hpp"

namespace {

int current_device(const gpemu_cuda_device** info) {
  int32_t device = 0;
  const int status = gpemu_cuda_current_device(&device);
  return status != GPEMU_CUDA_SUCCESS ? status : gpemu_cuda_get_device(device, info);
}

// The blocks of a launch's clusters, 1 without.
uint64_t cluster_size(const LaunchAttribute* attributes, uint32_t count) {
  for (uint32_t index = 0; index < count; ++index) {
    if (attributes[index].id == kLaunchClusters) {
      const auto& size = attributes[index].value.cluster;
      return uint64_t{size.x} * size.y * size.z;
    }
  }
  return 1;
}

}  // namespace

int get_kernel_attribute(int* value, int attribute, gpemu_cuda_kernel_handle kernel) {
  if (value == nullptr) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  gpemu_cuda_kernel_info info{};
  if (const int status = gpemu_cuda_kernel_get_info(kernel, &info); status != GPEMU_CUDA_SUCCESS) {
    return status;
  }
  switch (attribute) {
    case kKernelMaxThreads:
      *value = info.max_threads_per_block;
      break;
    case kKernelStaticShared:
      *value = static_cast<int>(info.static_shared_bytes);
      break;
    case kKernelConstant:
      *value = static_cast<int>(info.constant_bytes);
      break;
    case kKernelLocal:
      *value = static_cast<int>(info.local_bytes);
      break;
    case kKernelRegisters:
      *value = info.registers;
      break;
    case kKernelPtxVersion:
      *value = info.ptx_version;
      break;
    case kKernelBinaryVersion:
      *value = info.binary_version;
      break;
    case kKernelMaxDynamicShared:
      *value = static_cast<int>(info.max_dynamic_shared_bytes);
      break;
    case kKernelCarveout:
      *value = info.shared_carveout;
      break;
    default:
      if (attribute != kKernelCacheMode &&
          (attribute < kKernelFirstOfClusters || attribute > kKernelLastOfClusters)) {
        return GPEMU_CUDA_ERROR_INVALID_VALUE;
      }
      *value = 0;
  }
  return GPEMU_CUDA_SUCCESS;
}

int set_kernel_attribute(gpemu_cuda_kernel_handle kernel, int attribute, int value) {
  if (attribute == kKernelMaxDynamicShared) {
    return value < 0 ? GPEMU_CUDA_ERROR_INVALID_VALUE
                     : gpemu_cuda_kernel_set_max_dynamic_shared(kernel, value);
  }
  if (attribute == kKernelCarveout) {
    return value < kDefaultCarveout || value > kMaxCarveout
               ? GPEMU_CUDA_ERROR_INVALID_VALUE
               : gpemu_cuda_kernel_set_carveout(kernel, value);
  }
  if (attribute != kKernelNonPortableClusters) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  gpemu_cuda_kernel_info info{};
  if (const int status = gpemu_cuda_kernel_get_info(kernel, &info); status != GPEMU_CUDA_SUCCESS) {
    return status;
  }
  // Every cluster that a launch asks for is allowed, so there is nothing to store.
  const gpemu_cuda_device* device = nullptr;
  const int status = current_device(&device);
  return status != GPEMU_CUDA_SUCCESS || device->cluster_launch != 0
             ? status
             : static_cast<int>(GPEMU_CUDA_ERROR_NOT_SUPPORTED);
}

int read_packed_arguments(gpemu_cuda_launch& launch, void* const* extra) {
  if (extra == nullptr) {
    return GPEMU_CUDA_SUCCESS;
  }
  for (; reinterpret_cast<uintptr_t>(*extra) != kPackedEnd; extra += 2) {
    const auto name = reinterpret_cast<uintptr_t>(*extra);
    if (extra[1] == nullptr) {
      return GPEMU_CUDA_ERROR_INVALID_VALUE;
    }
    if (name == kPackedPointer) {
      launch.packed = extra[1];
    } else if (name == kPackedSize) {
      launch.packed_bytes = *static_cast<const size_t*>(extra[1]);
    } else {
      return GPEMU_CUDA_ERROR_INVALID_VALUE;
    }
  }
  return GPEMU_CUDA_SUCCESS;
}

int apply_launch_attributes(gpemu_cuda_launch& launch, const LaunchAttribute* attributes,
                            uint32_t count) {
  if (count > 0 && attributes == nullptr) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  for (uint32_t index = 0; index < count; ++index) {
    const LaunchAttribute& attribute = attributes[index];
    if (attribute.id == kLaunchCooperative) {
      launch.cooperative = attribute.value.flag != 0 ? 1 : 0;
    } else if (attribute.id == kLaunchClusters) {
      const auto& size = attribute.value.cluster;
      if (size.x == 0 || size.y == 0 || size.z == 0 || launch.grid[0] % size.x != 0 ||
          launch.grid[1] % size.y != 0 || launch.grid[2] % size.z != 0) {
        return GPEMU_CUDA_ERROR_INVALID_VALUE;
      }
      const gpemu_cuda_device* device = nullptr;
      const int status = current_device(&device);
      if (status != GPEMU_CUDA_SUCCESS) {
        return status;
      }
      if (device->cluster_launch == 0 && uint64_t{size.x} * size.y * size.z > 1) {
        return GPEMU_CUDA_ERROR_NOT_SUPPORTED;
      }
    }
  }
  return GPEMU_CUDA_SUCCESS;
}

int count_active_clusters(int* clusters, gpemu_cuda_kernel_handle kernel,
                          const gpemu_cuda_launch& launch, const LaunchAttribute* attributes,
                          uint32_t count) {
  if (clusters == nullptr || (count > 0 && attributes == nullptr)) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  const uint64_t size = cluster_size(attributes, count);
  if (size == 0) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  const gpemu_cuda_device* device = nullptr;
  int status = current_device(&device);
  int32_t blocks = 0;
  if (status == GPEMU_CUDA_SUCCESS) {
    const uint64_t threads = uint64_t{launch.block[0]} * launch.block[1] * launch.block[2];
    status = threads > INT32_MAX ? static_cast<int>(GPEMU_CUDA_ERROR_INVALID_VALUE)
                                 : gpemu_cuda_occupancy(kernel, static_cast<int32_t>(threads),
                                                        launch.dynamic_shared_bytes, &blocks);
  }
  if (status != GPEMU_CUDA_SUCCESS) {
    return status;
  }
  if (device->cluster_launch == 0 && size > 1) {
    return GPEMU_CUDA_ERROR_NOT_SUPPORTED;
  }
  *clusters = static_cast<int>(static_cast<uint64_t>(blocks) * device->multiprocessors / size);
  return GPEMU_CUDA_SUCCESS;
}

int largest_cluster(int* blocks, gpemu_cuda_kernel_handle kernel) {
  if (blocks == nullptr) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  const gpemu_cuda_device* device = nullptr;
  int status = current_device(&device);
  gpemu_cuda_kernel_info info{};
  if (status == GPEMU_CUDA_SUCCESS) {
    status = gpemu_cuda_kernel_get_info(kernel, &info);
  }
  if (status == GPEMU_CUDA_SUCCESS) {
    // Programming Guide, "Thread Block Clusters": 8 blocks run on every GPU that has clusters.
    *blocks = device->cluster_launch != 0 ? 8 : 1;
  }
  return status;
}

int available_dynamic_shared(size_t* bytes, gpemu_cuda_kernel_handle kernel, int blocks,
                             int threads_per_block) {
  if (bytes == nullptr || blocks < 1 || threads_per_block < 1) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  const gpemu_cuda_device* device = nullptr;
  int status = current_device(&device);
  gpemu_cuda_kernel_info info{};
  if (status == GPEMU_CUDA_SUCCESS) {
    status = gpemu_cuda_kernel_get_info(kernel, &info);
  }
  if (status != GPEMU_CUDA_SUCCESS) {
    return status;
  }
  int32_t most_blocks = 0;
  status = gpemu_cuda_occupancy(kernel, threads_per_block, 0, &most_blocks);
  if (status != GPEMU_CUDA_SUCCESS || blocks > most_blocks) {
    return status != GPEMU_CUDA_SUCCESS ? status : static_cast<int>(GPEMU_CUDA_ERROR_INVALID_VALUE);
  }
  // An H200 with driver 580.159 does not subtract the memory that the driver reserves in a block.
  const uint64_t share = device->shared_memory_per_multiprocessor / blocks;
  const uint64_t free =
      share > info.static_shared_bytes ? share - info.static_shared_bytes : uint64_t{0};
  *bytes = std::min(free, info.max_dynamic_shared_bytes);
  return GPEMU_CUDA_SUCCESS;
}

int most_occupying_block(int* grid, int* block, gpemu_cuda_kernel_handle kernel,
                         size_t (*shared_of_block)(int), size_t dynamic_shared, int limit) {
  if (grid == nullptr || block == nullptr || limit < 0) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  const gpemu_cuda_device* device = nullptr;
  int status = current_device(&device);
  gpemu_cuda_kernel_info info{};
  if (status == GPEMU_CUDA_SUCCESS) {
    status = gpemu_cuda_kernel_get_info(kernel, &info);
  }
  if (status != GPEMU_CUDA_SUCCESS) {
    return status;
  }
  constexpr int kWarp = 32;
  int largest = std::min(device->max_threads_per_block, info.max_threads_per_block);
  largest = limit > 0 ? std::min(largest, limit) : largest;
  int best_threads = 0;
  for (int threads = largest; threads > 0; threads = (threads - 1) / kWarp * kWarp) {
    const size_t shared = shared_of_block != nullptr ? shared_of_block(threads) : dynamic_shared;
    int32_t blocks = 0;
    if (status = gpemu_cuda_occupancy(kernel, threads, shared, &blocks);
        status != GPEMU_CUDA_SUCCESS) {
      return status;
    }
    if (blocks * threads > best_threads) {
      best_threads = blocks * threads;
      *block = threads;
      *grid = blocks * device->multiprocessors;
    }
  }
  return best_threads > 0 ? GPEMU_CUDA_SUCCESS : GPEMU_CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
}
