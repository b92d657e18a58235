// SPDX-License-Identifier: Apache-2.0
#include "gpemu/launch/kernel.hpp"

#include <algorithm>
#include <vector>

#include "gpemu/cuda.h"
#include "gpemu/kernels/kernel_traits.hpp"
#include "gpemu/launch/prices.hpp"
#include "gpemu/streams/context.hpp"

#include "capture.hpp"
#include "launch.hpp"
#include "stream.hpp"

namespace cuda = gpemu::cuda;
namespace launch = gpemu::launch;
namespace process = gpemu::process;
namespace streams = gpemu::streams;

void gpemu_cuda_register_kernel(const void* host_function, const char* name,
                                const void* fat_binary) try {
  if (host_function == nullptr || name == nullptr || process::forked()) return;
  launch::register_kernel(host_function, name, fat_binary);
}
GPEMU_CUDA_CATCH_VOID

gpemu_cuda_status gpemu_cuda_registered_kernel(const void* host_function,
                                               gpemu_cuda_kernel_handle* kernel) try {
  if (kernel == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  if (process::forked()) return GPEMU_CUDA_ERROR_NOT_INITIALIZED;
  return launch::registered_kernel(host_function, kernel);
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_kernel_get_info(gpemu_cuda_kernel_handle kernel,
                                             gpemu_cuda_kernel_info* info) try {
  if (info == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  gpemu_cuda_kernel* const found = launch::kernels().find(kernel);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  process::DeviceState* device = nullptr;
  GPEMU_CUDA_TRY(streams::current_device(&device));
  *info = launch::describe_kernel(*found, *device);
  return GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_kernel_set_max_dynamic_shared(gpemu_cuda_kernel_handle kernel,
                                                           uint64_t bytes) try {
  gpemu_cuda_kernel* const found = launch::kernels().find(kernel);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  process::DeviceState* device = nullptr;
  GPEMU_CUDA_TRY(streams::current_device(&device));
  if (bytes > device->info.shared_memory_per_block_optin) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  found->max_dynamic_shared = bytes;
  found->opted_in = true;
  return GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_kernel_set_carveout(gpemu_cuda_kernel_handle kernel,
                                                 int32_t percent) try {
  gpemu_cuda_kernel* const found = launch::kernels().find(kernel);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  if (percent < -1 || percent > 100) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  found->carveout = percent;
  return GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_occupancy(gpemu_cuda_kernel_handle kernel, int32_t threads_per_block,
                                       uint64_t dynamic_shared, int32_t* blocks) try {
  if (blocks == nullptr || threads_per_block <= 0) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  gpemu_cuda_kernel* const found = launch::kernels().find(kernel);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  process::DeviceState* device = nullptr;
  GPEMU_CUDA_TRY(streams::current_device(&device));
  *blocks = launch::fitting_blocks(*found, device->info, threads_per_block, dynamic_shared);
  return GPEMU_CUDA_SUCCESS;
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_launch_kernel(gpemu_cuda_kernel_handle kernel,
                                           const gpemu_cuda_launch* launch,
                                           gpemu_cuda_stream_handle stream) try {
  if (launch == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  if (launch->packed != nullptr) {
    std::vector<void*> arguments;
    gpemu_cuda_launch plain{};
    GPEMU_CUDA_TRY(process::attach());
    GPEMU_CUDA_TRY(launch::unpack_launch(kernel, *launch, &arguments, &plain));
    return gpemu_cuda_launch_kernel(kernel, &plain, stream);
  }
  gpemu_cuda_stream* found = nullptr;
  GPEMU_CUDA_TRY(cuda::resolve_for_work(stream, &found));
  // Source: CUDA C++ Programming Guide, "Multi-Device System", on streams.
  if (found->device->ordinal != process::thread_state.current_device())
    return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  if (cuda::capturing(*found)) {
    gpemu_cuda_node_parameters node{.kind = GPEMU_CUDA_NODE_KERNEL};
    node.kernel = kernel;
    node.launch = *launch;
    return cuda::capture(*found, node);
  }
  return cuda::launch_kernel(kernel, *launch, *found);
}
GPEMU_CUDA_CATCH

gpemu_cuda_status gpemu_cuda_submit(const gpemu_operation* operation,
                                    gpemu_cuda_stream_handle stream) try {
  if (operation == nullptr || operation->name == nullptr ||
      operation->struct_size != sizeof(*operation)) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  gpemu_cuda_stream* found = nullptr;
  GPEMU_CUDA_TRY(cuda::resolve_for_work(stream, &found));
  return cuda::run_operation(
      launch::price_on(*found->device, gpemu::kernels::describe_operation(*operation)), *operation,
      *found);
}
GPEMU_CUDA_CATCH
