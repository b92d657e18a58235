// SPDX-License-Identifier: Apache-2.0
#include "gpemu/streams/event_state.hpp"

namespace gpemu::streams {

gpemu_cuda_event* create_event(process::DeviceState& device, std::uint32_t flags) {
  gpemu_cuda_event* const created = events().create();
  if (created == nullptr) return nullptr;
  created->flags = flags;
  created->device = &device;
  return created;
}

}  // namespace gpemu::streams
