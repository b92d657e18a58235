// SPDX-License-Identifier: Apache-2.0
#include "launch.hpp"

#include "kernel.hpp"
#include "stream.hpp"

namespace gpemu::cuda {

Status launch_kernel(gpemu_cuda_kernel_handle kernel, const gpemu_cuda_launch& launch,
                     gpemu_cuda_stream& stream) {
  const PricedLaunch priced = price_launch(kernel, launch, *stream.device);
  GPEMU_CUDA_TRY(priced.status);
  perform_launch(kernels().find(kernel)->effect, launch);
  queue_operation(priced.cost, priced.operation, stream);
  return GPEMU_CUDA_SUCCESS;
}

}  // namespace gpemu::cuda
