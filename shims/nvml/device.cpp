// SPDX-License-Identifier: Apache-2.0
//
// The constant properties of a device.
#include <cstddef>
#include <cstdio>
#include <cstring>

#include "nvml.hpp"

using nvml::Handle;
using Device = gpemu_monitor_device;

namespace nvml {
namespace {

constexpr unsigned kVendor =
    0x10DE;  // NVIDIA's, in the lower half; the device's own id is not known
constexpr unsigned kBaseClassDisplay = 3;  // Source: PCI Code and ID Assignment, display controller
constexpr unsigned kSubClass3d = 2;        // likewise: 3D controller

struct Numbered {
  const char* name;
  unsigned number;
};

// By the beginning or a part of the product name.
constexpr Numbered kBrands[] = {{"Tesla", kTesla},     {"GeForce RTX", kGeforceRtx},
                                {"GeForce", kGeforce}, {"Quadro RTX", kQuadroRtx},
                                {"Quadro", kQuadro},   {"NVIDIA ", kNvidia}};

template <size_t Size>
unsigned find_number(const Numbered (&table)[Size], const char* text, unsigned otherwise) {
  for (const Numbered& entry : table) {
    if (std::strstr(text, entry.name) != nullptr) return entry.number;
  }
  return otherwise;
}

/// Yields it in an older structure.
template <typename Older>
int put_older_pci_info(const Handle* device, Older* info) {
  if (info == nullptr) return kInvalidArgument;
  PciInfo current{};
  const int status = put_pci_info(device, &current);
  if (status == kSuccess) convert(current, info);
  return status;
}

/// Megabits per second of a lane. Source: PCI Express Base Specification.
unsigned lane_speed(int32_t generation) {
  constexpr unsigned kSpeeds[] = {0, 2500, 5000, 8000, 16000, 32000, 64000};
  return generation > 0 && generation < 7 ? kSpeeds[generation] : 0;
}

}  // namespace

bool has_mig(const Device& device) {
  return device.has_mig != 0;
}

int put_pci_info(const Handle* device, PciInfo* info) {
  if (info == nullptr) return kInvalidArgument;
  return with_device(device, [info](const Device& known) {
    *info = {};
    std::sscanf(known.pci_bus_id, "%x:%x:%x", &info->domain, &info->bus, &info->device);
    info->pci_device_id = kVendor;
    std::snprintf(info->bus_id, sizeof(info->bus_id), "%08X:%02X:%02X.0", info->domain, info->bus,
                  info->device);
    std::snprintf(info->bus_id_legacy, sizeof(info->bus_id_legacy), "%04X:%02X:%02X.0",
                  info->domain & 0xFFFF, info->bus & 0xFF, info->device & 0x1F);
    return static_cast<int>(kSuccess);
  });
}

}  // namespace nvml

GPEMU_SHIM_EXPORT int nvmlDeviceGetName(Handle* device, char* name, unsigned length) {
  if (nvml::is_mig_handle(device)) return nvml::put_mig_name(device, name, length);
  return nvml::with_device(device, [&](const Device& known) {
    return nvml::put_text(known.product_name[0] == '\0' ? known.gpu : known.product_name, name,
                          length);
  });
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetUUID(Handle* device, char* uuid, unsigned length) {
  if (nvml::is_mig_handle(device)) {
    gpemu_monitor_mig_device known{};
    const int status = nvml::mig_device_of(device, known);
    return status == nvml::kSuccess ? nvml::put_text(known.uuid, uuid, length) : status;
  }
  return nvml::with_device(
      device, [&](const Device& known) { return nvml::put_text(known.uuid, uuid, length); });
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetIndex(Handle* device, unsigned* index) {
  const auto [found, status] = nvml::index_of(device);
  if (status != nvml::kSuccess) return status;
  if (index == nullptr) return nvml::kInvalidArgument;
  *index = static_cast<unsigned>(found);
  return nvml::kSuccess;
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetMinorNumber(Handle* device, unsigned* minor) {
  return nvmlDeviceGetIndex(device, minor);
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetBrand(Handle* device, unsigned* brand) {
  return nvml::put(device, brand, [](const Device& known) {
    return nvml::find_number(nvml::kBrands, known.product_name, nvml::kUnknownBrand);
  });
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetArchitecture(Handle* device, unsigned* architecture) {
  return nvml::put(device, architecture, [](const Device& known) {
    return known.nvml_architecture == 0 ? nvml::kUnknownArchitecture
                                        : static_cast<unsigned>(known.nvml_architecture);
  });
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetCudaComputeCapability(Handle* device, int* major, int* minor) {
  if (major == nullptr || minor == nullptr) return nvml::kInvalidArgument;
  return nvml::with_device(device, [&](const Device& known) {
    *major = known.compute_capability_major;
    *minor = known.compute_capability_minor;
    return static_cast<int>(nvml::kSuccess);
  });
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetNumGpuCores(Handle* device, unsigned* cores) {
  return nvml::put_known(device, cores, [](const Device& known) { return known.cuda_cores; });
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetMemoryBusWidth(Handle* device, unsigned* bits) {
  return nvml::put_known(device, bits, [](const Device& known) { return known.memory_bus_bits; });
}

GPEMU_SHIM_EXPORT int nvmlDeviceGetPciInfo(Handle* device, nvml::PciInfoV1* info) {
  return nvml::put_older_pci_info(device, info);
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetPciInfo_v2(Handle* device, nvml::PciInfoV2* info) {
  return nvml::put_older_pci_info(device, info);
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetPciInfo_v3(Handle* device, nvml::PciInfo* info) {
  return nvml::put_pci_info(device, info);
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetPciInfoExt(Handle* device, nvml::PciInfoExt* info) {
  if (info == nullptr) return nvml::kInvalidArgument;
  if (!nvml::is_version(*info, 1)) return nvml::kArgumentVersionMismatch;
  nvml::PciInfo plain{};
  const int status = nvml::put_pci_info(device, &plain);
  if (status != nvml::kSuccess) return status;
  info->domain = plain.domain;
  info->bus = plain.bus;
  info->device = plain.device;
  info->pci_device_id = plain.pci_device_id;
  info->pci_subsystem_id = plain.pci_subsystem_id;
  info->base_class = nvml::kBaseClassDisplay;
  info->sub_class = nvml::kSubClass3d;
  std::memcpy(info->bus_id, plain.bus_id, sizeof(info->bus_id));
  return nvml::kSuccess;
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetBusType(Handle* device, unsigned* type) {
  return nvml::put_constant(device, type, nvml::kPcieBus);
}

// The link is always at its full speed and width.
GPEMU_SHIM_EXPORT int nvmlDeviceGetMaxPcieLinkGeneration(Handle* device, unsigned* generation) {
  return nvml::put_known(device, generation,
                         [](const Device& known) { return known.pcie_generation; });
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetGpuMaxPcieLinkGeneration(Handle* device, unsigned* generation) {
  return nvmlDeviceGetMaxPcieLinkGeneration(device, generation);
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetCurrPcieLinkGeneration(Handle* device, unsigned* generation) {
  return nvmlDeviceGetMaxPcieLinkGeneration(device, generation);
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetMaxPcieLinkWidth(Handle* device, unsigned* lanes) {
  return nvml::put_known(device, lanes, [](const Device& known) { return known.pcie_lanes; });
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetCurrPcieLinkWidth(Handle* device, unsigned* lanes) {
  return nvmlDeviceGetMaxPcieLinkWidth(device, lanes);
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetPcieSpeed(Handle* device, unsigned* megabits_per_s) {
  return nvml::put_known(device, megabits_per_s, [](const Device& known) {
    return nvml::lane_speed(known.pcie_generation);
  });
}
/// NVML_PCIE_LINK_MAX_SPEED_... is numbered like the generations.
GPEMU_SHIM_EXPORT int nvmlDeviceGetPcieLinkMaxSpeed(Handle* device, unsigned* speed) {
  return nvmlDeviceGetMaxPcieLinkGeneration(device, speed);
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetPcieReplayCounter(Handle* device, unsigned* count) {
  return nvml::put_constant(device, count, 0U);
}

GPEMU_SHIM_EXPORT int nvmlDeviceGetPersistenceMode(Handle* device, unsigned* mode) {
  return nvml::put_constant(device, mode, unsigned{nvml::kEnabled});
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetDisplayMode(Handle* device, unsigned* mode) {
  return nvml::put_constant(device, mode, unsigned{nvml::kDisabled});
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetDisplayActive(Handle* device, unsigned* active) {
  return nvml::put_constant(device, active, unsigned{nvml::kDisabled});
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetAccountingMode(Handle* device, unsigned* mode) {
  return nvml::put_constant(device, mode, unsigned{nvml::kDisabled});
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetMultiGpuBoard(Handle* device, unsigned* is_multi) {
  return nvml::put_constant(device, is_multi, 0U);
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetVirtualizationMode(Handle* device, unsigned* mode) {
  return nvml::put_constant(device, mode, nvml::kNoVirtualization);
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetComputeMode(Handle* device, unsigned* mode) {
  return nvml::put(device, mode, [](const Device& known) { return known.compute_mode; });
}
/// The owner of a node may change it, without being root.
GPEMU_SHIM_EXPORT int nvmlDeviceSetComputeMode(Handle* device, unsigned mode) {
  const auto [index, status] = nvml::index_of(device);
  if (status != nvml::kSuccess) return status;
  if (mode >= nvml::kComputeModeEnd) return nvml::kInvalidArgument;
  if (mode == nvml::kExclusiveThread) return nvml::kNotSupported;  // As in drivers since CUDA 8.
  return nvml::status_of(gpemu_monitor_set_compute_mode(index, static_cast<int32_t>(mode)));
}

// Features that emulated boards do not have.
GPEMU_SHIM_EXPORT int nvmlDeviceGetSerial(Handle* device, char*, unsigned) {
  return nvml::absent(device);
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetBoardPartNumber(Handle* device, char*, unsigned) {
  return nvml::absent(device);
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetVbiosVersion(Handle* device, char*, unsigned) {
  return nvml::absent(device);
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetFanSpeed(Handle* device, unsigned*) {
  return nvml::absent(device);
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetFanSpeed_v2(Handle* device, unsigned, unsigned*) {
  return nvml::absent(device);
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetNumFans(Handle* device, unsigned*) {
  return nvml::absent(device);
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetEccMode(Handle* device, unsigned*, unsigned*) {
  return nvml::absent(device);
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetTotalEccErrors(Handle* device, unsigned, unsigned, uint64_t*) {
  return nvml::absent(device);
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetRetiredPagesPendingStatus(Handle* device, unsigned*) {
  return nvml::absent(device);
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetGpuFabricInfo(Handle* device, void*) {
  return nvml::absent(device);
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetGpuFabricInfoV(Handle* device, void*) {
  return nvml::absent(device);
}
