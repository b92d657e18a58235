// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "gpemu/monitor.h"

#include "abi.hpp"
#include "shim.hpp"

/// Code that NVML's functions share.
namespace nvml {

/// The target of an nvmlDevice_t: the element of a table at the device's index.
struct Handle;

/// Returns the number of devices, or a negative number before initialisation.
int32_t device_count();

/// The index of a device, or the status for an invalid handle.
struct IndexOrStatus {
  int32_t index;
  int status;
};
IndexOrStatus index_of(const Handle* device);

/// Returns the handle of a device that exists.
Handle* handle_of(int32_t index);

/// GPUs that can be divided (MIG). Source: NVIDIA Multi-Instance GPU User Guide, supported GPUs.
bool has_mig(const gpemu_monitor_device& device);

/// Returns whether MIG divides a GPU: NVML then does not support rates of utilization.
bool is_divided(const Handle* device);
/// Returns whether a handle may be that of a MIG device, of which index_of() says "not supported".
bool is_mig_handle(const Handle* device);
/// Reads what a MIG device is. Returns NVML's status.
int mig_device_of(const Handle* device, gpemu_monitor_mig_device& found);
/// Returns the GPU of a MIG device. Requires: is_mig_handle().
Handle* gpu_of(const Handle* mig_device);
/// Yields the name of a MIG device, after that of its GPU.
int put_mig_name(const Handle* device, char* name, unsigned length);
/// Finds a MIG device by its UUID.
int find_mig_device(const char* uuid, Handle** destination);

/// Returns NVML's status for one of gpemu/monitor.h.
int status_of(gpemu_status status);

/// Copies a text with its NUL to a buffer of the caller for `length` characters.
int put_text(const char* text, char* destination, unsigned length);

/// Returns whether a structure claims to be version `number` of its kind.
template <typename Struct>
bool is_version(const Struct& value, unsigned number) {
  return value.version == (sizeof(Struct) | (number << 24));
}

inline unsigned rounded(double value) {
  return static_cast<unsigned>(std::lround(value));
}

inline unsigned percent(double share) {
  return rounded(100 * share);
}

/// As many devices as a node can have.
constexpr int32_t kMaxDevices = 4096;

/// Calls `get` of gpemu/monitor.h for a device and passes its result to `use`, which returns NVML's
/// status.
template <typename Struct, typename Use>
int with(const Handle* device, gpemu_status (*get)(int32_t, Struct*), Use use) {
  const auto [index, status] = index_of(device);
  if (status != kSuccess) return status;
  Struct value{};
  value.struct_size = sizeof(value);
  const int got = status_of(get(index, &value));
  return got == kSuccess ? use(value) : got;
}

template <typename Use>
int with_device(const Handle* device, Use use) {
  return with<gpemu_monitor_device>(device, gpemu_monitor_get_device, use);
}
template <typename Use>
int with_state(const Handle* device, Use use) {
  return with<gpemu_monitor_state>(device, gpemu_monitor_get_state, use);
}
template <typename Use>
int with_load(const Handle* device, Use use) {
  return with<gpemu_monitor_load>(device, gpemu_monitor_get_load, use);
}

/// Yields a number about a device, which `compute` derives from its properties.
template <typename Number, typename Compute>
int put(const Handle* device, Number* destination, Compute compute) {
  if (destination == nullptr) return kInvalidArgument;
  return with_device(device, [&](const gpemu_monitor_device& known) {
    *destination = static_cast<Number>(compute(known));
    return static_cast<int>(kSuccess);
  });
}

/// The same for numbers that are not known for every GPU: 0 yields "not supported".
template <typename Compute>
int put_known(const Handle* device, unsigned* destination, Compute compute) {
  if (destination == nullptr) return kInvalidArgument;
  return with_device(device, [&](const gpemu_monitor_device& known) {
    const auto value = compute(known);
    if (value <= 0) return static_cast<int>(kNotSupported);
    *destination = rounded(value);
    return static_cast<int>(kSuccess);
  });
}

/// Answers for features that no emulated device has, as NVML does for boards without them. Unlike
/// an unsupported function this is not a gap, so it is not logged.
int absent(const Handle* device);

/// Yields a constant about a device.
template <typename Number>
int put_constant(const Handle* device, Number* destination, Number value) {
  return put(device, destination, [value](const gpemu_monitor_device&) { return value; });
}

/// Yields the PCI address of a device.
int put_pci_info(const Handle* device, PciInfo* info);

/// Fills an older structure, which begins with the fields that are before `bus_id` today.
template <typename Older>
void convert(const PciInfo& info, Older* older) {
  *older = {};
  std::memcpy(older, &info, std::min(sizeof(Older), offsetof(PciInfo, bus_id)));
}

/// Yields a field that concerns power settings, and returns its status: "not supported" for others.
int put_power_field(const Handle* device, FieldValue& field);
/// The same for fields that concern the traffic of NVLinks.
int put_link_field(const Handle* device, FieldValue& field);

/// Converts a time on CLOCK_MONOTONIC to NVML's: microseconds since 1970.
uint64_t epoch_us(int64_t monotonic_ns);

}  // namespace nvml
