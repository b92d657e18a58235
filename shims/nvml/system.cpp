// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdio>
#include <cstring>

#include "nvml.hpp"

namespace nvml {
namespace {

/// As many devices as a node can have; a handle is the address of an element.
constexpr int32_t kMaxDevices = 4096;
char handles[kMaxDevices];

constexpr int kCudaVersion = 13020;  // what cuDriverGetVersion of the stand-in yields

struct StatusText {
  int status;
  const char* text;
};

// What nvmlErrorString tells. Source: nvmlReturn_t, and nvidia-ml-py, which shows the same to
// users.
constexpr StatusText kStatusTexts[] = {{0, "Success"},
                                       {1, "Uninitialized"},
                                       {2, "Invalid Argument"},
                                       {3, "Not Supported"},
                                       {4, "Insufficient Permissions"},
                                       {5, "Already Initialized"},
                                       {6, "Not Found"},
                                       {7, "Insufficient Size"},
                                       {8, "Insufficient External Power"},
                                       {9, "Driver Not Loaded"},
                                       {10, "Timeout"},
                                       {11, "Interrupt Request Issue"},
                                       {12, "NVML Shared Library Not Found"},
                                       {13, "Function Not Found"},
                                       {14, "Corrupted infoROM"},
                                       {15, "GPU is lost"},
                                       {16, "GPU requires restart"},
                                       {17, "The operating system has blocked the request."},
                                       {18, "Driver/library version mismatch"},
                                       {19, "In use by another client"},
                                       {20, "Insufficient Memory"},
                                       {21, "No data"},
                                       {22, "vGPU ECC not supported"},
                                       {23, "Insufficient Resources"},
                                       {24, "Frequency not supported"},
                                       {25, "Argument version mismatch"},
                                       {26, "Deprecated"},
                                       {27, "Not Ready"},
                                       {28, "GPU not found"},
                                       {29, "Invalid State"},
                                       {30, "Reset type not supported"}};

int attach() {
  switch (gpemu_monitor_attach()) {
    case GPEMU_OK:
      return kSuccess;
    case GPEMU_ERROR_INCOMPATIBLE:
      return kVersionMismatch;
    case GPEMU_ERROR_RESOURCE_LIMIT:
      return kMemory;
    default:
      return kDriverNotLoaded;
  }
}

/// Returns how many devices there are, or a negative number when nobody has initialised.
int32_t device_count() {
  int32_t count = -1;
  return gpemu_monitor_device_count(&count) == GPEMU_OK ? count : -1;
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
  *destination = handle_of(static_cast<int32_t>(index));
  return kSuccess;
}

/// Finds the device of which `matches` is true.
template <typename Matches>
int find(Handle** destination, Matches matches) {
  const int32_t count = device_count();
  if (count < 0) return kUninitialized;
  for (int32_t i = 0; i < count; ++i) {
    gpemu_monitor_device device{};
    device.struct_size = sizeof(device);
    if (gpemu_monitor_get_device(i, &device) == GPEMU_OK && matches(device)) {
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

/// Reads "domain:bus:device.function", without regard to leading zeros; the domain may be missing.
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

int find_by_uuid(const char* text, Handle** destination) {
  return find(destination, [text](const gpemu_monitor_device& device) {
    return std::strcmp(device.uuid, text) == 0;
  });
}

}  // namespace

IndexOrStatus index_of(const Handle* device) {
  const int32_t count = device_count();
  if (count < 0) return {-1, kUninitialized};
  const uint64_t address = address_of(device);
  const uint64_t first = address_of(handles);
  if (address < first || address >= first + static_cast<uint64_t>(count)) {
    return {-1, kInvalidArgument};
  }
  return {static_cast<int32_t>(address - first), kSuccess};
}

Handle* handle_of(int32_t index) {
  return reinterpret_cast<Handle*>(&handles[index]);
}

int status_of(gpemu_status status) {
  switch (status) {
    case GPEMU_OK:
      return kSuccess;
    case GPEMU_ERROR_UNAVAILABLE:
      return kUninitialized;
    case GPEMU_ERROR_INVALID_ARGUMENT:
    case GPEMU_ERROR_NOT_FOUND:
      return kInvalidArgument;
    case GPEMU_ERROR_UNSUPPORTED:
      return kNotSupported;
    default:
      return kUnknown;
  }
}

int put_text(const char* text, char* destination, unsigned length) {
  if (destination == nullptr) return kInvalidArgument;
  const size_t needed = std::strlen(text) + 1;
  if (length < needed) return kInsufficientSize;
  std::memcpy(destination, text, needed);
  return kSuccess;
}

int absent(const Handle* device) {
  const int status = index_of(device).status;
  return status == kSuccess ? kNotSupported : status;
}

uint64_t epoch_us(int64_t monotonic_ns) {
  using std::chrono::duration_cast;
  using std::chrono::microseconds;
  using std::chrono::nanoseconds;
  const auto ago = std::chrono::steady_clock::now().time_since_epoch() - nanoseconds(monotonic_ns);
  const auto time = std::chrono::system_clock::now().time_since_epoch() - ago;
  return static_cast<uint64_t>(duration_cast<microseconds>(time).count());
}

}  // namespace nvml

using nvml::Handle;

GPEMU_SHIM_EXPORT int nvmlInit() {
  return nvml::attach();
}
GPEMU_SHIM_EXPORT int nvmlInit_v2() {
  return nvml::attach();
}
GPEMU_SHIM_EXPORT int nvmlInitWithFlags(unsigned) {
  return nvml::attach();
}
GPEMU_SHIM_EXPORT int nvmlShutdown() {
  return nvml::status_of(gpemu_monitor_detach());
}

GPEMU_SHIM_EXPORT const char* nvmlErrorString(int status) {
  for (const nvml::StatusText& entry : nvml::kStatusTexts) {
    if (entry.status == status) return entry.text;
  }
  return "Unknown Error";
}

GPEMU_SHIM_EXPORT int nvmlSystemGetDriverVersion(char* version, unsigned length) {
  if (nvml::device_count() < 0) return nvml::kUninitialized;
  return nvml::put_text(gpemu_monitor_driver_version(), version, length);
}
GPEMU_SHIM_EXPORT int nvmlSystemGetNVMLVersion(char* version, unsigned length) {
  char text[80];  // NVML_API_VERSION before the driver's
  std::snprintf(text, sizeof(text), "13.%s", gpemu_monitor_driver_version());
  return nvml::put_text(text, version, length);
}
GPEMU_SHIM_EXPORT int nvmlSystemGetCudaDriverVersion(int* version) {
  if (version == nullptr) return nvml::kInvalidArgument;
  *version = nvml::kCudaVersion;
  return nvml::kSuccess;
}
GPEMU_SHIM_EXPORT int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  return nvmlSystemGetCudaDriverVersion(version);
}

/// The name is the first word of the command line; a longer one is cut, as NVML does.
GPEMU_SHIM_EXPORT int nvmlSystemGetProcessName(unsigned pid, char* name, unsigned length) {
  if (nvml::device_count() < 0) return nvml::kUninitialized;
  if (name == nullptr || length == 0) return nvml::kInvalidArgument;
  char path[32];
  std::snprintf(path, sizeof(path), "/proc/%u/cmdline", pid);
  std::FILE* const file = std::fopen(path, "re");
  if (file == nullptr) return nvml::kNotFound;
  const size_t read = std::fread(name, 1, length - 1, file);
  std::fclose(file);
  name[read] = '\0';
  return read > 0 ? nvml::kSuccess : nvml::kNotFound;
}

GPEMU_SHIM_EXPORT int nvmlUnitGetCount(unsigned* count) {
  if (nvml::device_count() < 0) return nvml::kUninitialized;
  if (count == nullptr) return nvml::kInvalidArgument;
  *count = 0;
  return nvml::kSuccess;
}
GPEMU_SHIM_EXPORT int nvmlGetExcludedDeviceCount(unsigned* count) {
  if (count == nullptr) return nvml::kInvalidArgument;
  *count = 0;
  return nvml::kSuccess;
}

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
  constexpr unsigned kTypeText = 1;  // NVML_UUID_TYPE_ASCII
  if (nvml::device_count() < 0) return nvml::kUninitialized;
  if (uuid == nullptr || device == nullptr) return nvml::kInvalidArgument;
  if (!nvml::is_version(*uuid, 1)) return nvml::kArgumentVersionMismatch;
  if (uuid->type != kTypeText || std::memchr(uuid->text, '\0', sizeof(uuid->text)) == nullptr) {
    return nvml::kInvalidArgument;
  }
  return nvml::find_by_uuid(uuid->text, device);
}
/// Emulated boards have no serial number, so that none is ever found.
GPEMU_SHIM_EXPORT int nvmlDeviceGetHandleBySerial(const char* serial, Handle** device) {
  if (nvml::device_count() < 0) return nvml::kUninitialized;
  return serial == nullptr || device == nullptr ? nvml::kInvalidArgument : nvml::kNotFound;
}
