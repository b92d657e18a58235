// SPDX-License-Identifier: Apache-2.0
//
// How the devices are connected: PCIe and NVLink.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <unistd.h>

#include "nvml.hpp"

using nvml::Handle;
using Device = gpemu_monitor_device;
using Path = gpemu_monitor_path;

namespace nvml {
namespace {

/// Passes what joins two devices to `use`, which returns NVML's status.
template <typename Use>
int with_path(const Handle* first, const Handle* second, Use use) {
  const auto [index, status] = index_of(first);
  const auto [peer, peer_status] = index_of(second);
  if (status != kSuccess) return status;
  if (peer_status != kSuccess) return peer_status;
  Path path{};
  path.struct_size = sizeof(path);
  const int got = status_of(gpemu_monitor_get_path(index, peer, &path));
  return got == kSuccess ? use(path) : got;
}

/// Passes what an NVLink of a device leads to (a device, or GPEMU_MONITOR_NVLINK_...) to `use`.
template <typename Use>
int with_nvlink(const Handle* device, unsigned link, Use use) {
  const auto [found, status] = index_of(device);
  if (status != kSuccess) return status;
  const int32_t index = found;
  return with_device(device, [&](const Device& known) -> int {
    if (known.nvlink_links == 0) return kNotSupported;
    if (link >= static_cast<unsigned>(known.nvlink_links)) return kInvalidArgument;
    int32_t end = 0;
    const int got = status_of(gpemu_monitor_get_nvlink(index, static_cast<int32_t>(link), &end));
    return got == kSuccess ? use(end, known) : got;
  });
}

/// The same for active links only: the properties of others are not supported.
template <typename Use>
int with_active_nvlink(const Handle* device, unsigned link, Use use) {
  return with_nvlink(device, link, [&](int32_t end, const Device& known) -> int {
    return end == GPEMU_MONITOR_NVLINK_INACTIVE ? static_cast<int>(kNotSupported) : use(end, known);
  });
}

/// Returns NVML's number of a device's NVLink version; 0 for a version that NVML does not know.
unsigned nvlink_version(const Device& device) {
  const long tenths = std::lround(10 * device.nvlink_version);
  unsigned number = 0;
  for (const int version : kNvlinkVersions) {
    ++number;
    if (version == tenths) return number;
  }
  return 0;
}

/// The address of an NVSwitch that this machine does not see. Source: NCCL 2.27, src/graph/xml.cc,
/// which knows it as that of an NVSwitch outside of a virtual machine.
PciInfo unseen_switch() {
  PciInfo info{};
  info.domain = 0xFFFFFFF;
  info.bus = 0xFFFF;
  info.device = 0xFF;
  std::snprintf(info.bus_id, sizeof(info.bus_id), "FFFFFFF:FFFF:FF");
  std::snprintf(info.bus_id_legacy, sizeof(info.bus_id_legacy), "FFFFFFF:FFFF:FF");
  return info;
}

int put_remote_pci_info(const Handle* device, unsigned link, PciInfo* info) {
  if (info == nullptr) return kInvalidArgument;
  return with_active_nvlink(device, link, [info](int32_t end, const Device&) -> int {
    if (end == GPEMU_MONITOR_NVLINK_UNKNOWN) return kNotSupported;
    if (end >= 0) return put_pci_info(handle_of(end), info);
    *info = unseen_switch();
    return kSuccess;
  });
}

PeerStatus peer_status(const Path& path, unsigned capability) {
  const bool nvlink = path.nvlinks > 0;
  switch (capability) {
    case kPeerRead:
    case kPeerWrite:
      return path.access != 0 ? kPeerOk : kPeerChipsetNotSupported;
    case kPeerNvlink:
      return nvlink ? kPeerOk : kPeerNotSupported;
    case kPeerPcie:
      // Whether GPUs with an NVLink between them could do without it is not known.
      if (nvlink) return kPeerUnknown;
      return path.access != 0 ? kPeerOk : kPeerChipsetNotSupported;
    default:
      return kPeerNotSupported;  // Atomics over links are not emulated.
  }
}

bool is_level(unsigned level) {
  return level % kLevelStep == 0 && level <= kSystemLevel;
}

}  // namespace
}  // namespace nvml

// A topology does not describe which cores are near a GPU, so that all of the host's are.
GPEMU_SHIM_EXPORT int nvmlDeviceGetCpuAffinity(Handle* device, unsigned words,
                                               unsigned long* affinity) {
  const int status = nvml::index_of(device).status;
  if (status != nvml::kSuccess) return status;
  if (affinity == nullptr || words == 0) return nvml::kInvalidArgument;
  constexpr unsigned kBits = 8 * sizeof(unsigned long);
  const auto cpus = static_cast<unsigned>(::sysconf(_SC_NPROCESSORS_CONF));
  // Ignore words beyond these: no system has as many processors as they have bits.
  constexpr unsigned kMostWords = 1024;
  for (unsigned i = 0; i < std::min(words, kMostWords); ++i) {
    const unsigned bits = cpus > i * kBits ? std::min(cpus - i * kBits, kBits) : 0;
    affinity[i] = bits == kBits ? ~0UL : (1UL << bits) - 1;
  }
  return nvml::kSuccess;
}

GPEMU_SHIM_EXPORT int nvmlDeviceGetTopologyCommonAncestor(Handle* first, Handle* second,
                                                          unsigned* level) {
  if (level == nullptr) return nvml::kInvalidArgument;
  return nvml::with_path(first, second, [level](const Path& path) -> int {
    if (path.pcie < 0) return nvml::kNotSupported;
    *level = static_cast<unsigned>(path.pcie) * nvml::kLevelStep;
    return nvml::kSuccess;
  });
}

/// Yields the devices that a path of at most this level leads to, or with room for none, their
/// number. Source: nvmlGpuTopologyLevel_t describes the levels as such sets.
GPEMU_SHIM_EXPORT int nvmlDeviceGetTopologyNearestGpus(Handle* device, unsigned level,
                                                       unsigned* count, Handle** nearest) {
  const auto [own, status] = nvml::index_of(device);
  if (status != nvml::kSuccess) return status;
  if (count == nullptr || (*count > 0 && nearest == nullptr) || !nvml::is_level(level)) {
    return nvml::kInvalidArgument;
  }
  const unsigned room = *count;
  unsigned found = 0;
  for (int32_t peer = 0; peer < nvml::device_count(); ++peer) {
    if (peer == own) continue;
    unsigned of_peer = 0;
    const int got = nvmlDeviceGetTopologyCommonAncestor(device, nvml::handle_of(peer), &of_peer);
    if (got != nvml::kSuccess) return got;
    if (of_peer > level) continue;
    if (found < room) nearest[found] = nvml::handle_of(peer);
    ++found;
  }
  *count = room == 0 || found < room ? found : room;
  return nvml::kSuccess;
}

GPEMU_SHIM_EXPORT int nvmlDeviceGetP2PStatus(Handle* first, Handle* second, unsigned capability,
                                             unsigned* status) {
  if (status == nullptr || capability >= nvml::kPeerCapabilityEnd) return nvml::kInvalidArgument;
  return nvml::with_path(first, second, [=](const Path& path) -> int {
    if (first == second) return nvml::kInvalidArgument;
    *status = nvml::peer_status(path, capability);
    return nvml::kSuccess;
  });
}

GPEMU_SHIM_EXPORT int nvmlDeviceGetNvLinkState(Handle* device, unsigned link, unsigned* active) {
  if (active == nullptr) return nvml::kInvalidArgument;
  return nvml::with_nvlink(device, link, [active](int32_t end, const Device&) -> int {
    *active = end == GPEMU_MONITOR_NVLINK_INACTIVE ? nvml::kDisabled : nvml::kEnabled;
    return nvml::kSuccess;
  });
}

/// Emulated links replay nothing: a broken one does not work at all, and a slow one is only slow.
GPEMU_SHIM_EXPORT int nvmlDeviceGetNvLinkErrorCounter(Handle* device, unsigned link,
                                                      unsigned counter, uint64_t* errors) {
  if (errors == nullptr || counter >= nvml::kNvlinkErrorCounterEnd) return nvml::kInvalidArgument;
  return nvml::with_active_nvlink(device, link, [errors](int32_t, const Device&) -> int {
    *errors = 0;
    return nvml::kSuccess;
  });
}

GPEMU_SHIM_EXPORT int nvmlDeviceGetNvLinkVersion(Handle* device, unsigned link, unsigned* version) {
  if (version == nullptr) return nvml::kInvalidArgument;
  return nvml::with_active_nvlink(device, link, [version](int32_t, const Device& known) -> int {
    *version = nvml::nvlink_version(known);
    return *version == 0 ? nvml::kNotSupported : nvml::kSuccess;
  });
}

/// Links carry accesses to peers; atomics and the host's memory are not emulated.
GPEMU_SHIM_EXPORT int nvmlDeviceGetNvLinkCapability(Handle* device, unsigned link,
                                                    unsigned capability, unsigned* has) {
  if (has == nullptr || capability >= nvml::kNvlinkCapabilityEnd) return nvml::kInvalidArgument;
  return nvml::with_active_nvlink(device, link, [=](int32_t, const Device&) -> int {
    *has = capability == nvml::kNvlinkPeers || capability == nvml::kNvlinkValid ? 1 : 0;
    return nvml::kSuccess;
  });
}

GPEMU_SHIM_EXPORT int nvmlDeviceGetNvLinkRemoteDeviceType(Handle* device, unsigned link,
                                                          unsigned* type) {
  if (type == nullptr) return nvml::kInvalidArgument;
  return nvml::with_active_nvlink(device, link, [type](int32_t end, const Device&) -> int {
    *type = end >= 0                             ? nvml::kNvlinkToGpu
            : end == GPEMU_MONITOR_NVLINK_SWITCH ? nvml::kNvlinkToSwitch
                                                 : nvml::kNvlinkToUnknown;
    return nvml::kSuccess;
  });
}

GPEMU_SHIM_EXPORT int nvmlDeviceGetNvLinkRemotePciInfo(Handle* device, unsigned link,
                                                       nvml::PciInfoV2* info) {
  if (info == nullptr) return nvml::kInvalidArgument;
  nvml::PciInfo current{};
  const int status = nvml::put_remote_pci_info(device, link, &current);
  if (status == nvml::kSuccess) nvml::convert(current, info);
  return status;
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetNvLinkRemotePciInfo_v2(Handle* device, unsigned link,
                                                          nvml::PciInfo* info) {
  return nvml::put_remote_pci_info(device, link, info);
}
