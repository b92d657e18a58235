// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "machine.hpp"

struct gpemu_cuda_stream {
  gpemu::cuda::DeviceState* device = nullptr;
  std::unique_ptr<gpemu::device::Stream> owned;  ///< null for the legacy default stream.
  gpemu::device::Stream* stream = nullptr;
  std::uint32_t flags = 0;
  std::int32_t priority = 0;
  std::uint64_t id = 0;
};

struct gpemu_cuda_event {
  gpemu::device::Event event;
  std::uint32_t flags = 0;
};

namespace gpemu::cuda {

/// Makes the legacy default stream of a device whose context is made.
void make_default_stream(DeviceState& device);

/// Blocks until the host functions that streams of the device have reached are done.
void wait_for_host_functions();

}  // namespace gpemu::cuda
