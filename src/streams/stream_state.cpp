// SPDX-License-Identifier: Apache-2.0
#include "gpemu/streams/stream_state.hpp"

#include <atomic>
#include <cstdint>

#include "gpemu/base/error.hpp"

namespace gpemu::streams {
namespace {

std::uint64_t next_id() {
  static constinit std::atomic<std::uint64_t> next{1};
  return next++;
}

}  // namespace

gpemu_cuda_stream* create_stream(process::DeviceState& device, std::uint32_t flags,
                                 std::int32_t priority) {
  gpemu_cuda_stream* const created = streams().create();
  if (created == nullptr) return nullptr;
  created->device = &device;
  created->owned = device.device->create_stream((flags & kNonBlockingStream) != 0
                                                    ? device::StreamKind::kNonBlocking
                                                    : device::StreamKind::kBlocking,
                                                static_cast<std::int8_t>(priority));
  created->stream = created->owned.get();
  created->flags = flags;
  created->priority = priority;
  if (priority != 0) device.has_priorities.store(true, std::memory_order_relaxed);
  created->id = next_id();
  return created;
}

void make_default_stream(process::DeviceState& device) {
  device.default_stream = streams().create();
  GPEMU_CHECK(device.default_stream != nullptr, "no slot for a default stream");
  device.default_stream->device = &device;
  device.default_stream->stream = &device.device->default_stream();
  device.default_stream->id = next_id();
}

}  // namespace gpemu::streams
