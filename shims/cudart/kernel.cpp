// SPDX-License-Identifier: Apache-2.0
#include "cudart.hpp"
#include "kernel_attribute.hpp"

namespace {

gpemu_cuda_launch launch_of(const Dim3& grid, const Dim3& block, size_t shared, void** arguments) {
  return {.grid = {grid.x, grid.y, grid.z},
          .block = {block.x, block.y, block.z},
          .dynamic_shared_bytes = shared,
          .cooperative = 0,
          .arguments = arguments};
}

/// Launches a kernel. The runtime of CUDA 13 has one status for all grids and blocks that cannot be
/// launched. Source: an H200, driver 580.159, CUDA 13.0.
int launch_kernel(Kernel kernel, const gpemu_cuda_launch& launch, Stream stream) {
  const int status = gpemu_cuda_launch_kernel(kernel, &launch, stream);
  const bool cannot_run = status == GPEMU_CUDA_ERROR_INVALID_CONFIGURATION ||
                          status == GPEMU_CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  return GPEMU_CUDA_MAJOR >= 13 && cannot_run ? kInvalidValue : status;
}

int launch_function(const void* function, const gpemu_cuda_launch& launch, Stream stream) {
  Kernel kernel = nullptr;
  const int status = find_kernel(function, &kernel);
  return status == kSuccess ? launch_kernel(kernel, launch, stream) : status;
}

int launch_with(const LaunchConfig* config, const void* function, void** arguments, Stream stream) {
  gpemu_cuda_launch launch =
      launch_of(config->grid, config->block, config->dynamic_shared_bytes, arguments);
  const int status = apply_launch_attributes(launch, config->attributes, config->attribute_count);
  return status == kSuccess ? launch_function(function, launch, stream) : status;
}

/// Runs a call on the kernel for a pointer.
template <typename Call>
int with_kernel(const void* function, Call&& call) {
  return in_context([&] {
    Kernel kernel = nullptr;
    const int status = find_kernel(function, &kernel);
    return status == kSuccess ? call(kernel) : status;
  });
}

int get_attributes(FunctionAttributes* attributes, Kernel kernel) {
  gpemu_cuda_kernel_info info{};
  const int status = gpemu_cuda_kernel_get_info(kernel, &info);
  if (status != kSuccess) {
    return status;
  }
  *attributes = {};
  attributes->static_shared_bytes = info.static_shared_bytes;
  attributes->constant_bytes = info.constant_bytes;
  attributes->local_bytes = info.local_bytes;
  attributes->max_threads_per_block = info.max_threads_per_block;
  attributes->registers = info.registers;
  attributes->ptx_version = info.ptx_version;
  attributes->binary_version = info.binary_version;
  attributes->max_dynamic_shared_bytes = static_cast<int>(info.max_dynamic_shared_bytes);
  attributes->shared_carveout = info.shared_carveout;
  return kSuccess;
}

/// Yields a kernel as the handle that the driver and other calls take.
int get_handle(Kernel* handle, const void* function) {
  return handle == nullptr ? record(kInvalidValue) : record(find_kernel(function, handle));
}

// The configuration that <<<…>>> stores for the launch function that it calls.
struct PendingLaunch {
  Dim3 grid, block;
  size_t shared;
  Stream stream;
};
constexpr int kMaxPendingLaunches = 8;
thread_local PendingLaunch pending_launches[kMaxPendingLaunches];
thread_local int pending_launch_count = 0;

}  // namespace

// ---- Launches ----

GPEMU_TWINS(cudaLaunchKernel, _ptsz,
            (const void* function, Dim3 grid, Dim3 block, void** arguments, size_t shared,
             Stream stream),
            return in_context([&] {
              return launch_function(function, launch_of(grid, block, shared, arguments),
                                     on(stream));
            });)

GPEMU_TWINS(cudaLaunchCooperativeKernel, _ptsz,
            (const void* function, Dim3 grid, Dim3 block, void** arguments, size_t shared,
             Stream stream),
            return in_context([&] {
              gpemu_cuda_launch launch = launch_of(grid, block, shared, arguments);
              launch.cooperative = 1;
              return launch_function(function, launch, on(stream));
            });)

GPEMU_TWINS(cudaLaunchKernelExC, _ptsz,
            (const LaunchConfig* config, const void* function, void** arguments),
            return in_context([&] {
              return config == nullptr
                         ? kInvalidValue
                         : launch_with(config, function, arguments, on(config->stream));
            });)

// The launch of programs compiled by nvcc 13, with the handle from __cudaGetKernel.
GPEMU_TWINS(__cudaLaunchKernel, _ptsz,
            (Kernel kernel, Dim3 grid, Dim3 block, void** arguments, size_t shared, Stream stream),
            return in_context([&] {
              const gpemu_cuda_launch launch = launch_of(grid, block, shared, arguments);
              return launch_kernel(kernel, launch, on(stream));
            });)

GPEMU_SHIM_EXPORT int __cudaGetKernel(Kernel* kernel, const void* function) {
  return get_handle(kernel, function);
}

GPEMU_SHIM_EXPORT int cudaGetKernel(Kernel* kernel, const void* function) {
  return get_handle(kernel, function);
}

GPEMU_SHIM_EXPORT int cudaGetFuncBySymbol(Kernel* kernel, const void* function) {
  return get_handle(kernel, function);
}

GPEMU_SHIM_EXPORT unsigned __cudaPushCallConfiguration(Dim3 grid, Dim3 block, size_t shared,
                                                       Stream stream) {
  if (pending_launch_count == kMaxPendingLaunches) {
    return record(kMissingConfiguration);  // the earlier ones were not used
  }
  pending_launches[pending_launch_count++] = {grid, block, shared, stream};
  return kSuccess;
}

GPEMU_SHIM_EXPORT int __cudaPopCallConfiguration(Dim3* grid, Dim3* block, size_t* shared,
                                                 void* stream) {
  if (grid == nullptr || block == nullptr || shared == nullptr || stream == nullptr) {
    return record(kInvalidValue);
  }
  if (pending_launch_count == 0) {
    return record(kMissingConfiguration);
  }
  const PendingLaunch& launch = pending_launches[--pending_launch_count];
  *grid = launch.grid;
  *block = launch.block;
  *shared = launch.shared;
  *static_cast<Stream*>(stream) = launch.stream;
  return kSuccess;
}

// ---- Registration: called by every object that nvcc compiled, when it is loaded ----

GPEMU_SHIM_EXPORT void** __cudaRegisterFatBinary(void* fat_binary) {
  return static_cast<void**>(fat_binary);
}

GPEMU_SHIM_EXPORT void __cudaRegisterFatBinaryEnd(void** /*fat_binary*/) {}

GPEMU_SHIM_EXPORT void __cudaUnregisterFatBinary(void** fat_binary) {
  gpemu_cuda_unregister(fat_binary);
}

GPEMU_SHIM_EXPORT char __cudaInitModule(void** /*fat_binary*/) {
  return 1;
}

GPEMU_SHIM_EXPORT void __cudaRegisterFunction(void** fat_binary, const char* host_function,
                                              char* /*device_function*/, const char* name,
                                              int /*thread_limit*/, void* /*thread*/,
                                              void* /*block*/, void* /*block_size*/,
                                              void* /*grid_size*/, int* /*warp_size*/) {
  gpemu_cuda_register_kernel(host_function, name, fat_binary);
}

GPEMU_SHIM_EXPORT void __cudaRegisterVar(void** fat_binary, char* host_variable,
                                         char* /*device_variable*/, const char* name,
                                         int /*external*/, size_t bytes, int /*constant*/,
                                         int /*global*/) {
  gpemu_cuda_register_variable(host_variable, name, bytes, fat_binary);
}

// ---- Attributes and occupancy ----

GPEMU_SHIM_EXPORT int cudaFuncGetAttributes(FunctionAttributes* attributes, const void* function) {
  return with_kernel(function, [=](Kernel kernel) {
    return attributes == nullptr ? kInvalidValue : get_attributes(attributes, kernel);
  });
}

GPEMU_SHIM_EXPORT int cudaFuncSetAttribute(const void* function, int attribute, int value) {
  return with_kernel(function,
                     [=](Kernel kernel) { return set_kernel_attribute(kernel, attribute, value); });
}

GPEMU_SHIM_EXPORT int cudaKernelSetAttributeForDevice(Kernel kernel, int attribute, int value,
                                                      int device) {
  const gpemu_cuda_device* info = nullptr;
  const int status = gpemu_cuda_get_device(device, &info);
  return record(status == kSuccess ? set_kernel_attribute(kernel, attribute, value) : status);
}

GPEMU_SHIM_EXPORT int cudaFuncGetName(const char** name, const void* function) {
  return with_kernel(function, [=](Kernel kernel) {
    gpemu_cuda_kernel_info info{};
    const int status = name == nullptr ? kInvalidValue : gpemu_cuda_kernel_get_info(kernel, &info);
    if (status == kSuccess) {
      *name = info.name;
    }
    return status;
  });
}

// How the L1 and shared memory are split is advice.
GPEMU_SHIM_EXPORT int cudaFuncSetCacheConfig(const void* function, int config) {
  return with_kernel(function, [=](Kernel) {
    return config < 0 || config > kLastCache ? kInvalidValue : kSuccess;
  });
}

GPEMU_SHIM_EXPORT int cudaFuncSetSharedMemConfig(const void* function, int config) {
  return with_kernel(function, [=](Kernel) {
    return config < 0 || config > kLastBanks ? kInvalidValue : kSuccess;
  });
}

GPEMU_SHIM_EXPORT int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* blocks, const void* function, int threads_per_block, size_t shared, unsigned flags) {
  return with_kernel(function, [=](Kernel kernel) {
    return blocks == nullptr || (flags & ~kAllOccupancyFlags) != 0
               ? kInvalidValue
               : gpemu_cuda_occupancy(kernel, threads_per_block, shared, blocks);
  });
}

GPEMU_SHIM_EXPORT int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks,
                                                                    const void* function,
                                                                    int threads_per_block,
                                                                    size_t shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads_per_block,
                                                                shared, 0);
}

GPEMU_SHIM_EXPORT int cudaOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, const void* function,
                                                                int blocks, int threads_per_block) {
  return with_kernel(function, [=](Kernel kernel) {
    return available_dynamic_shared(bytes, kernel, blocks, threads_per_block);
  });
}

GPEMU_SHIM_EXPORT int cudaOccupancyMaxActiveClusters(int* clusters, const void* function,
                                                     const LaunchConfig* config) {
  return with_kernel(function, [=](Kernel kernel) {
    if (config == nullptr) {
      return kInvalidValue;
    }
    const gpemu_cuda_launch launch =
        launch_of(config->grid, config->block, config->dynamic_shared_bytes, nullptr);
    return count_active_clusters(clusters, kernel, launch, config->attributes,
                                 config->attribute_count);
  });
}

GPEMU_SHIM_EXPORT int cudaOccupancyMaxPotentialClusterSize(int* blocks, const void* function,
                                                           const LaunchConfig* config) {
  return with_kernel(function, [=](Kernel kernel) {
    return config == nullptr ? kInvalidValue : largest_cluster(blocks, kernel);
  });
}
