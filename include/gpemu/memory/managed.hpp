// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "gpemu/base/mutex.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/memory/memory_state.hpp"
#include "gpemu/process/device_state.hpp"
#include "gpemu/process/status.hpp"

namespace gpemu::memory {

// Managed memory of devices that can use it while the host does. Its pages take memory of a device
// once work of the device uses them, and leave when other work needs the room: those that came
// first leave first. The host's use of pages cannot be seen, so it does not bring them back.

/// Returns whether a device and the host can use managed memory at the same time.
[[nodiscard]] inline bool shares_managed(const process::DeviceState& device) {
  return device.info.concurrent_managed_access != 0;
}

/// Begin and end managed memory. Requires: whole pages if they move, i.e. if it is of a device that
/// shares it; other managed memory only has advice.
void add_managed(Memory& state, std::uint64_t start, Bytes bytes, bool moves)
    GPEMU_REQUIRES(state.mutex);
void remove_managed(Memory& state, std::uint64_t start) GPEMU_REQUIRES(state.mutex);

/// Moves pages of managed memory from a device to the host until `bytes` have become free, and
/// returns whether any did.
bool evict_managed(Memory& state, process::DeviceState& device, Bytes bytes)
    GPEMU_REQUIRES(state.mutex);

/// Moves the managed pages of a range, if there are any, to a device that uses them, as far as they
/// find room there.
void use_managed(std::uint64_t address, Bytes bytes, process::DeviceState& device);

/// Applies advice, a CUmem_advise, to a range. `place`: a device's ordinal, or -1 for the host.
/// Errors: INVALID_VALUE unless the range is managed memory, INVALID_DEVICE for a device that does
/// not exist or share managed memory.
[[nodiscard]] process::Status advise_managed(std::uint64_t address, Bytes bytes,
                                             std::int32_t advice, std::int32_t place);

/// Moves a range to a place, as a prefetch does, and yields how much was not there. Errors: those
/// of advise_managed.
[[nodiscard]] process::Status move_managed(std::uint64_t address, Bytes bytes, std::int32_t place,
                                           Bytes* moved);

/// Describes what was asked for a range. Errors: INVALID_VALUE unless it is managed memory.
[[nodiscard]] process::Status describe_managed(std::uint64_t address, Bytes bytes,
                                               gpemu_cuda_managed_range* range);

}  // namespace gpemu::memory
