// SPDX-License-Identifier: Apache-2.0
#include "launch.hpp"

#include "gpemu/kernels/described_operation.hpp"
#include "gpemu/launch/kernel.hpp"
#include "gpemu/launch/kernel_execution.hpp"
#include "gpemu/launch/prices.hpp"

#include "stream.hpp"

namespace gpemu::cuda {

process::Status launch_kernel(gpemu_cuda_kernel_handle kernel, const gpemu_cuda_launch& launch,
                              gpemu_cuda_stream& stream) {
  const process::DeviceState& device = *stream.device;
  gpemu_cuda_kernel* found = nullptr;
  GPEMU_CUDA_TRY(launch::find_launched(kernel, launch, device, &found));
  const kernels::DescribedOperation described = launch::describe_operation(*found, launch, device);
  cost::OperationCost cost = launch::price_on(device, described);
  launch::set_shape(*found, launch, device, cost);
  queue_operation(cost, described.operation, stream);
  launch::perform_launch(found->effect, launch, &stream);
  return GPEMU_CUDA_SUCCESS;
}

}  // namespace gpemu::cuda
