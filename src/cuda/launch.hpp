// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpemu/process/status.hpp"
#include "gpemu/streams/stream_state.hpp"

namespace gpemu::cuda {

/// Queues a kernel on a stream that is not capturing, and applies its known effect to memory.
/// Errors: those of find_launched().
[[nodiscard]] process::Status launch_kernel(gpemu_cuda_kernel_handle kernel,
                                            const gpemu_cuda_launch& launch,
                                            gpemu_cuda_stream& stream);

}  // namespace gpemu::cuda
