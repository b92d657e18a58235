// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdio>
#include <cstring>
#include <iterator>

#include "nvml.hpp"

namespace nvml {
namespace {

/// A handle is the address of an element.
char handles[kMaxDevices];

bool is_lost(int32_t index) {
  int32_t lost = 0;
  return gpemu_monitor_is_lost(index, &lost) == GPEMU_OK && lost != 0;
}

int put_count(unsigned* destination) {
  const int32_t count = device_count();
  if (count < 0) return kUninitialized;
  if (destination == nullptr) return kInvalidArgument;
  *destination = static_cast<unsigned>(count);
  return kSuccess;
}

int put_handle(unsigned index, Handle** destination) {
  const int32_t count = device_count();
  if (count < 0) return kUninitialized;
  if (destination == nullptr || index >= static_cast<unsigned>(count)) return kInvalidArgument;
  if (is_lost(static_cast<int32_t>(index))) return kGpuIsLost;
  *destination = handle_of(static_cast<int32_t>(index));
  return kSuccess;
}

/// Finds the device for which `matches` is true.
template <typename Matches>
int find(Handle** destination, Matches matches) {
  const int32_t count = device_count();
  if (count < 0) return kUninitialized;
  for (int32_t i = 0; i < count; ++i) {
    gpemu_monitor_device device{};
    device.struct_size = sizeof(device);
    if (gpemu_monitor_get_device(i, &device) == GPEMU_OK && matches(device)) {
      if (is_lost(i)) return kGpuIsLost;
      *destination = handle_of(i);
      return kSuccess;
    }
  }
  return kNotFound;
}

struct PciAddress {
  unsigned domain, bus, device, function;
  friend bool operator==(const PciAddress&, const PciAddress&) = default;
};

/// Reads "domain:bus:device.function", with or without leading zeros; the domain may be missing.
bool read_address(const char* text, PciAddress& address) {
  address = {};
  if (std::sscanf(text, "%x:%x:%x.%x", &address.domain, &address.bus, &address.device,
                  &address.function) >= 3) {
    return true;
  }
  address.domain = 0;
  return std::sscanf(text, "%x:%x.%x", &address.bus, &address.device, &address.function) >= 2;
}

int find_by_address(const char* text, Handle** destination) {
  PciAddress wanted{};
  if (device_count() < 0) return kUninitialized;
  if (text == nullptr || destination == nullptr || !read_address(text, wanted)) {
    return kInvalidArgument;
  }
  return find(destination, [&wanted](const gpemu_monitor_device& device) {
    PciAddress address{};
    return read_address(device.pci_bus_id, address) && address == wanted;
  });
}

/// Returns the text of a UUID's bytes, e.g. "GPU-01234567-89ab-cdef-0123-456789abcdef".
std::array<char, sizeof(Uuid::text)> text_of(const unsigned char (&bytes)[16]) {
  std::array<char, sizeof(Uuid::text)> text{'G', 'P', 'U', '-'};
  size_t length = 4;
  for (size_t i = 0; i < std::size(bytes); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text[length++] = '-';
    std::snprintf(&text[length], text.size() - length, "%02x", bytes[i]);
    length += 2;
  }
  return text;
}

int find_by_uuid(const char* text, Handle** destination) {
  if (std::strncmp(text, "MIG-", 4) == 0) return find_mig_device(text, destination);
  return find(destination, [text](const gpemu_monitor_device& device) {
    return std::strcmp(device.uuid, text) == 0;
  });
}

}  // namespace

int32_t device_count() {
  int32_t count = -1;
  return gpemu_monitor_device_count(&count) == GPEMU_OK ? count : -1;
}

IndexOrStatus index_of(const Handle* device) {
  const int32_t count = device_count();
  if (count < 0) return {-1, kUninitialized};
  if (is_mig_handle(device)) return {-1, kNotSupported};
  const uint64_t address = address_of(device);
  const uint64_t first = address_of(handles);
  if (address < first || address >= first + static_cast<uint64_t>(count)) {
    return {-1, kInvalidArgument};
  }
  const auto index = static_cast<int32_t>(address - first);
  return {index, is_lost(index) ? kGpuIsLost : kSuccess};
}

Handle* handle_of(int32_t index) {
  return reinterpret_cast<Handle*>(&handles[index]);
}

}  // namespace nvml

using nvml::Handle;

GPEMU_SHIM_EXPORT int nvmlDeviceGetCount(unsigned* count) {
  return nvml::put_count(count);
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetCount_v2(unsigned* count) {
  return nvml::put_count(count);
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetHandleByIndex(unsigned index, Handle** device) {
  return nvml::put_handle(index, device);
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, Handle** device) {
  return nvml::put_handle(index, device);
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetHandleByPciBusId(const char* bus_id, Handle** device) {
  return nvml::find_by_address(bus_id, device);
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, Handle** device) {
  return nvml::find_by_address(bus_id, device);
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetHandleByUUID(const char* uuid, Handle** device) {
  if (nvml::device_count() < 0) return nvml::kUninitialized;
  if (uuid == nullptr || device == nullptr) return nvml::kInvalidArgument;
  return nvml::find_by_uuid(uuid, device);
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetHandleByUUIDV(const nvml::Uuid* uuid, Handle** device) {
  if (nvml::device_count() < 0) return nvml::kUninitialized;
  if (uuid == nullptr || device == nullptr) return nvml::kInvalidArgument;
  if (!nvml::is_version(*uuid, 1)) return nvml::kArgumentVersionMismatch;
  if (uuid->type == nvml::kBinaryUuid) {
    return nvml::find_by_uuid(nvml::text_of(uuid->bytes).data(), device);
  }
  if (uuid->type != nvml::kAsciiUuid ||
      std::memchr(uuid->text, '\0', sizeof(uuid->text)) == nullptr) {
    return nvml::kInvalidArgument;
  }
  return nvml::find_by_uuid(uuid->text, device);
}
/// Emulated boards have no serial number, so none is ever found.
GPEMU_SHIM_EXPORT int nvmlDeviceGetHandleBySerial(const char* serial, Handle** device) {
  if (nvml::device_count() < 0) return nvml::kUninitialized;
  return serial == nullptr || device == nullptr ? nvml::kInvalidArgument : nvml::kNotFound;
}
