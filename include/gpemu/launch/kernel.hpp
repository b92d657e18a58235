// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "gpemu/base/mutex.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/cost/operation_cost.hpp"
#include "gpemu/launch/kernel_state.hpp"
#include "gpemu/process/device_state.hpp"
#include "gpemu/process/status.hpp"

namespace gpemu::launch {

/// Registers a kernel of a fat binary under its host function in the program.
void register_kernel(const void* host_function, const char* name, const void* fat_binary);

/// Errors: INVALID_DEVICE_FUNCTION.
[[nodiscard]] process::Status registered_kernel(const void* host_function,
                                                gpemu_cuda_kernel** kernel);

/// Returns the device's compute capability in the form used by images.
[[nodiscard]] int architecture_of(const process::DeviceState& device);

/// Returns the image of a fat binary for the first device, read on first use, or null.
[[nodiscard]] const Image* image_of(KernelRegistry& state, const void* fat_binary)
    GPEMU_REQUIRES(state.mutex);

/// Returns what the compiler recorded about a kernel, as far as it is known. Requires: attached.
[[nodiscard]] gpemu_cuda_kernel_info describe_kernel(gpemu_cuda_kernel& kernel,
                                                     const process::DeviceState& device);

/// Returns how many blocks of a kernel a multiprocessor of the device holds at once. Requires:
/// attached.
[[nodiscard]] int fitting_blocks(gpemu_cuda_kernel& kernel, const gpemu_cuda_device& info,
                                 int threads_per_block, Bytes dynamic_shared);

/// Sets how much of a device the blocks of a launch fill. Requires: as fitting_blocks, and
/// find_launched.
void set_shape(gpemu_cuda_kernel& kernel, const gpemu_cuda_launch& launch,
               const process::DeviceState& device, cost::OperationCost& cost);

/// Finds the kernel of a launch and checks that it can be launched this way. Errors: those of
/// gpemu_cuda_launch_kernel. Requires: attached.
[[nodiscard]] process::Status find_launched(gpemu_cuda_kernel_handle handle,
                                            const gpemu_cuda_launch& launch,
                                            const process::DeviceState& device,
                                            gpemu_cuda_kernel** kernel);

/// Describes a launch for the cost model; the operation's name is the kernel's. Requires:
/// find_launched() found the kernel.
[[nodiscard]] kernels::DescribedOperation describe_operation(gpemu_cuda_kernel& kernel,
                                                             const gpemu_cuda_launch& launch,
                                                             const process::DeviceState& device);

/// Points `arguments` at each of a launch's packed arguments, and makes `plain` the launch with
/// them. Errors: INVALID_HANDLE, INVALID_VALUE, NOT_SUPPORTED, as in gpemu_cuda_launch_kernel.
[[nodiscard]] process::Status unpack_launch(gpemu_cuda_kernel_handle kernel,
                                            const gpemu_cuda_launch& launch,
                                            std::vector<void*>* arguments,
                                            gpemu_cuda_launch* plain);

}  // namespace gpemu::launch
