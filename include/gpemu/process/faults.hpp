// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <optional>
#include <string>

#include "gpemu/base/units.hpp"
#include "gpemu/device/moment.hpp"
#include "gpemu/process/device_state.hpp"
#include "gpemu/process/status.hpp"
#include "gpemu/topology/shares.hpp"

namespace gpemu::process {

/// The status of calls on a GPU that has fallen off the bus. NVIDIA documents no status for it;
/// cudaErrorUnknown, "an unknown internal error", is what is left when nothing more specific fits.
/// Source: CUDA Runtime API, cudaError_t; NVIDIA's Xid list: 79, "GPU has fallen off the bus".
inline constexpr Status kLostStatus = GPEMU_CUDA_ERROR_UNKNOWN;

/// As check_device, for a device with faults.
[[nodiscard]] Status check_faulty_device(DeviceState& device);

/// Errors: kLostStatus if a device has fallen off the bus; that of a fatal error of its context.
/// Every call that uses a device asks.
[[nodiscard]] inline Status check_device(DeviceState& device) {
  return device.has_faults.load(std::memory_order_relaxed) ? check_faulty_device(device)
                                                           : GPEMU_CUDA_SUCCESS;
}

/// Returns whether a device has fallen off the bus, or its context has had a fatal error. Then
/// nothing that was queued on it may ever come.
[[nodiscard]] inline bool is_lost(DeviceState& device) {
  return check_device(device) != GPEMU_CUDA_SUCCESS;
}

/// Blocks until a moment has come, or until the device is lost. `device`: null for work of another
/// process.
void wait_on_device(const device::Moment& moment, const DeviceState* device);

/// Returns how long it takes until a device is lost; nothing if that is not known.
[[nodiscard]] std::optional<Duration> time_to_loss(const DeviceState& device);

/// Returns what faults leave of the rate of the link over which a device of the node reaches a
/// peer, or the host (-1).
[[nodiscard]] double link_share(int device, int peer, topology::LinkClass link);
[[nodiscard]] inline double link_share(const DeviceState& device, int peer,
                                       topology::LinkClass link) {
  return device.has_faults ? link_share(device.index, peer, link) : 1;
}

/// Errors: NVLINK_UNCORRECTABLE if the NVLinks between a device with faults and a peer are broken.
/// Requires: they reach each other over NVLink.
[[nodiscard]] Status check_nvlink(DeviceState& device, int peer);

/// From now on, faults that begin at a given time end this process. Called when it makes its first
/// context on the device.
void start_faults(const DeviceState& device);

/// An assertion of a kernel has failed that ends at a moment. From then on, the context has the
/// error ASSERT. `text` says what failed, for the user.
void fail_assertion(DeviceState& device, const device::Moment& end, std::string text);

/// Counts a kernel of a device, with which a fatal error of its context may begin.
void count_kernel_for_faults(DeviceState& device);

/// Counts a collective of a device, with which faults may begin. May end this process.
void count_for_faults(const DeviceState& device);

}  // namespace gpemu::process
