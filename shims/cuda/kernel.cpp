// SPDX-License-Identifier: Apache-2.0
#include "cuda.hpp"
#include "kernel_attribute.hpp"

namespace {

gpemu_cuda_launch launch_of(const LaunchConfig& config, void** arguments) {
  return {.grid = {config.grid[0], config.grid[1], config.grid[2]},
          .block = {config.block[0], config.block[1], config.block[2]},
          .dynamic_shared_bytes = config.shared_bytes,
          .cooperative = 0,
          .arguments = arguments};
}

int launch(Kernel kernel, const gpemu_cuda_launch& description, Stream stream) {
  return in_context([&] { return gpemu_cuda_launch_kernel(kernel, &description, stream); });
}

int launch_with(const LaunchConfig& config, Kernel kernel, void** arguments, void** extra,
                Stream stream) {
  if (arguments != nullptr && extra != nullptr) {
    return kInvalidValue;
  }
  gpemu_cuda_launch description = launch_of(config, arguments);
  int status = apply_launch_attributes(description, config.attributes, config.attribute_count);
  if (status == kSuccess) {
    status = read_packed_arguments(description, extra);
  }
  return status == kSuccess ? launch(kernel, description, stream) : status;
}

int occupancy(int* blocks, Kernel kernel, int threads_per_block, size_t shared, unsigned flags) {
  return in_context([=] {
    return blocks == nullptr || (flags & ~kAllOccupancyFlags) != 0
               ? kInvalidValue
               : gpemu_cuda_occupancy(kernel, threads_per_block, shared, blocks);
  });
}

/// Yields one property of a kernel.
template <typename Out, typename Part>
int get_part(Kernel kernel, Out* out, Part part) {
  gpemu_cuda_kernel_info info{};
  const int status = out == nullptr ? kInvalidValue : gpemu_cuda_kernel_get_info(kernel, &info);
  return put_result(status, out, part(info));
}

/// Checks a call's advice for a kernel: how the L1 and shared memory are split.
int accept_advice(Kernel kernel, int value, int largest) {
  gpemu_cuda_kernel_info info{};
  return value < 0 || value > largest ? kInvalidValue : gpemu_cuda_kernel_get_info(kernel, &info);
}

int check_device(Device device) {
  const gpemu_cuda_device* info = nullptr;
  return gpemu_cuda_get_device(device, &info);
}

}  // namespace

// ---- Launches ----

GPEMU_TWINS(
    cuLaunchKernel, _ptsz,
    (Kernel kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
     unsigned block_y, unsigned block_z, unsigned shared_bytes, Stream stream, void** arguments,
     void** extra),
    const LaunchConfig config{
        {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes, stream, nullptr, 0};
    return launch_with(config, kernel, arguments, extra, on(stream));)

GPEMU_TWINS(
    cuLaunchCooperativeKernel, _ptsz,
    (Kernel kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
     unsigned block_y, unsigned block_z, unsigned shared_bytes, Stream stream, void** arguments),
    const LaunchConfig config{
        {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes, stream, nullptr, 0};
    gpemu_cuda_launch description = launch_of(config, arguments); description.cooperative = 1;
    return launch(kernel, description, on(stream));)

GPEMU_TWINS(cuLaunchKernelEx, _ptsz,
            (const LaunchConfig* config, Kernel kernel, void** arguments, void** extra),
            return config == nullptr
                       ? kInvalidValue
                       : launch_with(*config, kernel, arguments, extra, on(config->stream));)

// ---- Attributes ----

GPEMU_SHIM_EXPORT int cuFuncGetAttribute(int* value, int attribute, Kernel kernel) {
  return get_kernel_attribute(value, attribute, kernel);
}

GPEMU_SHIM_EXPORT int cuFuncSetAttribute(Kernel kernel, int attribute, int value) {
  return set_kernel_attribute(kernel, attribute, value);
}

GPEMU_SHIM_EXPORT int cuKernelGetAttribute(int* value, int attribute, Kernel kernel,
                                           Device device) {
  const int status = check_device(device);
  return status == kSuccess ? get_kernel_attribute(value, attribute, kernel) : status;
}

GPEMU_SHIM_EXPORT int cuKernelSetAttribute(int attribute, int value, Kernel kernel, Device device) {
  const int status = check_device(device);
  return status == kSuccess ? set_kernel_attribute(kernel, attribute, value) : status;
}

GPEMU_SHIM_EXPORT int cuFuncSetCacheConfig(Kernel kernel, int config) {
  return accept_advice(kernel, config, kLastCache);
}

GPEMU_SHIM_EXPORT int cuFuncSetSharedMemConfig(Kernel kernel, int config) {
  return accept_advice(kernel, config, kLastBanks);
}

GPEMU_SHIM_EXPORT int cuKernelSetCacheConfig(Kernel kernel, int config, Device device) {
  const int status = check_device(device);
  return status == kSuccess ? accept_advice(kernel, config, kLastCache) : status;
}

GPEMU_SHIM_EXPORT int cuFuncGetName(const char** name, Kernel kernel) {
  return get_part(kernel, name, [](const gpemu_cuda_kernel_info& info) { return info.name; });
}

GPEMU_SHIM_EXPORT int cuKernelGetName(const char** name, Kernel kernel) {
  return cuFuncGetName(name, kernel);
}

GPEMU_SHIM_EXPORT int cuFuncGetModule(Module* module, Kernel kernel) {
  return get_part(kernel, module, [](const gpemu_cuda_kernel_info& info) { return info.module; });
}

GPEMU_SHIM_EXPORT int cuKernelGetLibrary(Module* library, Kernel kernel) {
  return cuFuncGetModule(library, kernel);
}

// A kernel is the same on every device, so it is its own function.
GPEMU_SHIM_EXPORT int cuKernelGetFunction(Kernel* function, Kernel kernel) {
  return get_part(kernel, function, [=](const gpemu_cuda_kernel_info&) { return kernel; });
}

// Kernels are known as soon as their module is.
GPEMU_SHIM_EXPORT int cuFuncIsLoaded(int* state, Kernel kernel) {
  return get_part(kernel, state, [](const gpemu_cuda_kernel_info&) { return kLoaded; });
}

GPEMU_SHIM_EXPORT int cuFuncLoad(Kernel kernel) {
  gpemu_cuda_kernel_info info{};
  return gpemu_cuda_kernel_get_info(kernel, &info);
}

// ---- Occupancy ----

GPEMU_SHIM_EXPORT int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Kernel kernel,
                                                                  int threads_per_block,
                                                                  size_t shared) {
  return occupancy(blocks, kernel, threads_per_block, shared, 0);
}

GPEMU_SHIM_EXPORT int cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* blocks, Kernel kernel, int threads_per_block, size_t shared, unsigned flags) {
  return occupancy(blocks, kernel, threads_per_block, shared, flags);
}

GPEMU_SHIM_EXPORT int cuOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, Kernel kernel,
                                                              int blocks, int threads_per_block) {
  return in_context(
      [=] { return available_dynamic_shared(bytes, kernel, blocks, threads_per_block); });
}

GPEMU_SHIM_EXPORT int cuOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* block,
                                                                Kernel kernel,
                                                                size_t (*shared_of_block)(int),
                                                                size_t shared, int limit,
                                                                unsigned flags) {
  return in_context([=] {
    return (flags & ~kAllOccupancyFlags) != 0
               ? kInvalidValue
               : most_occupying_block(grid, block, kernel, shared_of_block, shared, limit);
  });
}

GPEMU_SHIM_EXPORT int cuOccupancyMaxPotentialBlockSize(int* grid, int* block, Kernel kernel,
                                                       size_t (*shared_of_block)(int),
                                                       size_t shared, int limit) {
  return cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, kernel, shared_of_block, shared,
                                                   limit, 0);
}

GPEMU_SHIM_EXPORT int cuOccupancyMaxActiveClusters(int* clusters, Kernel kernel,
                                                   const LaunchConfig* config) {
  return in_context([=] {
    return config == nullptr ? kInvalidValue
                             : count_active_clusters(clusters, kernel, launch_of(*config, nullptr),
                                                     config->attributes, config->attribute_count);
  });
}

GPEMU_SHIM_EXPORT int cuOccupancyMaxPotentialClusterSize(int* blocks, Kernel kernel,
                                                         const LaunchConfig* config) {
  return in_context(
      [=] { return config == nullptr ? kInvalidValue : largest_cluster(blocks, kernel); });
}
