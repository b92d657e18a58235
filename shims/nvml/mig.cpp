// SPDX-License-Identifier: Apache-2.0
//
// Multi-Instance GPU. Handles of instances and of MIG devices are addresses in tables: by GPU, GPU
// instance and compute instance.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "nvml.hpp"

using nvml::Handle;
using MigProfile = gpemu_monitor_mig_profile;
using MigInstance = gpemu_monitor_mig_instance;
using MigComputeProfile = gpemu_monitor_mig_compute_profile;
using MigDevice = gpemu_monitor_mig_device;
using MigChange = gpemu_monitor_mig_change;

namespace nvml {

/// The targets of nvmlGpuInstance_t and nvmlComputeInstance_t.
struct GpuInstance;
struct ComputeInstance;

namespace {

/// More than ids of GPU instances, and of compute instances in one. Source: gpemu mig -lgi, -lci.
constexpr int32_t kMaxInstances = 16, kMaxComputeInstances = 8;

char devices[kMaxDevices * kMaxInstances * kMaxComputeInstances];
char instances[kMaxDevices * kMaxInstances];
char compute_instances[kMaxDevices * kMaxInstances * kMaxComputeInstances];

/// What a handle stands for.
struct Place {
  int32_t index = -1;  ///< of the GPU; -1: it is no handle of that kind.
  int32_t instance = 0, compute = 0;
};

template <size_t Size>
int32_t offset_in(const char (&table)[Size], const void* handle) {
  const uint64_t address = address_of(handle), first = address_of(&table[0]);
  return address >= first && address < first + Size ? static_cast<int32_t>(address - first) : -1;
}

Place place_of(int32_t offset) {
  if (offset < 0) return {};
  const int32_t instance = offset / kMaxComputeInstances;
  return {instance / kMaxInstances, instance % kMaxInstances, offset % kMaxComputeInstances};
}
int32_t offset_of(const Place& place) {
  return (place.index * kMaxInstances + place.instance) * kMaxComputeInstances + place.compute;
}

Place place_of_device(const Handle* device) {
  return place_of(offset_in(devices, device));
}
Place place_of_instance(const GpuInstance* instance) {
  const int32_t offset = offset_in(instances, instance);
  return place_of(offset < 0 ? -1 : offset * kMaxComputeInstances);
}
Place place_of_compute(const ComputeInstance* instance) {
  return place_of(offset_in(compute_instances, instance));
}

Handle* device_handle(const Place& place) {
  return reinterpret_cast<Handle*>(&devices[offset_of(place)]);
}
GpuInstance* instance_handle(int32_t index, int32_t instance) {
  return reinterpret_cast<GpuInstance*>(&instances[index * kMaxInstances + instance]);
}
ComputeInstance* compute_handle(const Place& place) {
  return reinterpret_cast<ComputeInstance*>(&compute_instances[offset_of(place)]);
}

/// Returns NVML's status for a function of MIG.
int mig_status(gpemu_status status) {
  switch (status) {
    case GPEMU_ERROR_NOT_FOUND:
      return kNotFound;
    case GPEMU_ERROR_RESOURCE_LIMIT:
      return kInsufficientResources;
    case GPEMU_ERROR_NOT_READY:
      return kInUse;
    default:
      return status_of(status);
  }
}

/// Finds what `matches` in a list, which `get` reads by number. Returns kNotFound if nothing does.
template <typename Struct, typename Get, typename Matches>
int find(Struct& found, Get get, Matches matches) {
  for (int32_t number = 0;; ++number) {
    found = {};
    found.struct_size = sizeof(found);
    const gpemu_status status = get(number, &found);
    if (status != GPEMU_OK) return mig_status(status);
    if (matches(found)) return kSuccess;
  }
}

template <typename Matches>
int find_profile(int32_t index, MigProfile& found, Matches matches) {
  return find(
      found,
      [index](int32_t number, MigProfile* profile) {
        return gpemu_monitor_get_mig_profile(index, number, profile);
      },
      matches);
}

int find_instance(int32_t index, int32_t id, MigInstance& found) {
  return find(
      found,
      [index](int32_t number, MigInstance* instance) {
        return gpemu_monitor_get_mig_instance(index, number, instance);
      },
      [id](const MigInstance& instance) { return instance.id == id; });
}

int find_compute_profile(const Place& place, int32_t id, MigComputeProfile& found) {
  return find(
      found,
      [&place](int32_t number, MigComputeProfile* profile) {
        return gpemu_monitor_get_mig_compute_profile(place.index, place.instance, number, profile);
      },
      [id](const MigComputeProfile& profile) { return profile.id == id; });
}

template <typename Matches>
int find_device(int32_t index, MigDevice& found, Matches matches) {
  return find(
      found,
      [index](int32_t number, MigDevice* device) {
        return gpemu_monitor_get_mig_device(index, number, device);
      },
      matches);
}

int find_device(const Place& place, MigDevice& found) {
  if (place.index < 0) return kInvalidArgument;
  return find_device(place.index, found, [&place](const MigDevice& device) {
    return device.gpu_instance == place.instance && device.compute_instance == place.compute;
  });
}

/// Calls `use` with the index of a GPU that MIG divides.
template <typename Use>
int with_divided(const Handle* device, Use use) {
  const auto [index, status] = index_of(device);
  if (status != kSuccess) return status;
  return with_device(device, [&](const gpemu_monitor_device& known) -> int {
    return known.mig == 0 ? static_cast<int>(kNotSupported) : use(index);
  });
}

int put_placements(const int32_t (&starts)[8], int32_t start_count, int32_t size,
                   Placement* placements, unsigned* count) {
  if (count == nullptr) return kInvalidArgument;
  for (int32_t i = 0; placements != nullptr && i < start_count; ++i) {
    placements[i] = {static_cast<unsigned>(starts[i]), static_cast<unsigned>(size)};
  }
  *count = static_cast<unsigned>(start_count);
  return kSuccess;
}

/// Fills the counts of engines of a profile's structure.
template <typename Info>
void fill_engines(Info& info, const MigProfile& profile) {
  info.copy_engines = static_cast<unsigned>(profile.copy_engines);
  info.decoders = static_cast<unsigned>(profile.decoders);
  info.encoders = 0;
  info.jpegs = static_cast<unsigned>(profile.jpegs);
  info.ofas = static_cast<unsigned>(profile.ofas);
}

/// Fills what all versions of a profile's structure have.
template <typename Info>
void fill(Info& info, const MigProfile& profile) {
  info.id = static_cast<unsigned>(profile.id);
  info.slices = static_cast<unsigned>(profile.compute_slices);
  info.instances = static_cast<unsigned>(profile.max_count);
  info.multiprocessors = static_cast<unsigned>(profile.multiprocessors);
  fill_engines(info, profile);
  info.memory_mib = profile.memory_bytes >> 20;
}

template <size_t Size, size_t From>
void fill_name(char (&destination)[Size], const char (&name)[From]) {
  static_assert(Size > From + 4);
  std::memcpy(destination, "MIG ", 4);
  std::memcpy(destination + 4, name, From);
}

int get_profile(const Handle* device, unsigned number, MigProfile& profile) {
  const auto [index, status] = index_of(device);
  if (status != kSuccess) return status;
  if (number >= kMostGpuInstanceProfiles) return kInvalidArgument;
  const int found = find_profile(index, profile, [number](const MigProfile& known) {
    return known.nvml_profile == static_cast<int32_t>(number);
  });
  return found == kNotFound ? static_cast<int>(kNotSupported) : found;
}

int get_profile_by_id(const Handle* device, unsigned id, MigProfile& profile) {
  const auto [index, status] = index_of(device);
  if (status != kSuccess) return status;
  const int found = find_profile(index, profile, [id](const MigProfile& known) {
    return known.id == static_cast<int32_t>(id);
  });
  return found == kNotFound ? static_cast<int>(kInvalidArgument) : found;
}

/// Finds a kind of compute instance by NVML's number. All engines but multiprocessors are shared.
int get_compute_profile(const GpuInstance* instance, unsigned number, unsigned engines,
                        MigComputeProfile& profile, MigProfile& of_instance) {
  const Place place = place_of_instance(instance);
  if (place.index < 0 || number >= kMostComputeInstanceProfiles || engines != kSharedEngines) {
    return kInvalidArgument;
  }
  MigInstance known{};
  if (const int status = find_instance(place.index, place.instance, known); status != kSuccess) {
    return status;
  }
  const int status = find_profile(place.index, of_instance, [&known](const MigProfile& other) {
    return other.id == known.profile;
  });
  if (status != kSuccess) return status;
  const int found = find_compute_profile(place, static_cast<int32_t>(number), profile);
  return found == kNotFound ? static_cast<int>(kNotSupported) : found;
}

template <typename Info>
void fill(Info& info, const MigComputeProfile& profile, const MigProfile& of_instance) {
  info.id = static_cast<unsigned>(profile.id);
  info.slices = static_cast<unsigned>(profile.slices);
  info.instances = static_cast<unsigned>(profile.max_count);
  info.multiprocessors = static_cast<unsigned>(profile.multiprocessors);
  fill_engines(info, of_instance);
}

int change(int32_t index, MigChange change, int32_t* id) {
  change.struct_size = sizeof(change);
  return mig_status(gpemu_monitor_change_mig(index, &change, id));
}

int create_instance(const Handle* device, unsigned profile, int32_t start, GpuInstance** made) {
  if (made == nullptr) return kInvalidArgument;
  return with_divided(device, [&](int32_t index) -> int {
    int32_t id = 0;
    const int status = change(index,
                              {.action = GPEMU_MONITOR_MIG_CREATE,
                               .profile = static_cast<int32_t>(profile),
                               .start = start},
                              &id);
    if (status == kSuccess) *made = instance_handle(index, id);
    return status;
  });
}

int create_compute(const GpuInstance* instance, unsigned profile, int32_t start,
                   ComputeInstance** made) {
  const Place place = place_of_instance(instance);
  if (made == nullptr || place.index < 0) return kInvalidArgument;
  int32_t id = 0;
  const int status = change(place.index,
                            {.action = GPEMU_MONITOR_MIG_CREATE_COMPUTE,
                             .gpu_instance = place.instance,
                             .profile = static_cast<int32_t>(profile),
                             .start = start},
                            &id);
  if (status == kSuccess) *made = compute_handle({place.index, place.instance, id});
  return status;
}

int get_compute_info(const ComputeInstance* instance, ComputeInstanceInfo* info) {
  if (info == nullptr) return kInvalidArgument;
  const Place place = place_of_compute(instance);
  MigDevice device{};
  if (const int status = find_device(place, device); status != kSuccess) return status;
  *info = {.device = handle_of(place.index),
           .instance = instance_handle(place.index, place.instance),
           .id = static_cast<unsigned>(place.compute),
           .profile = static_cast<unsigned>(device.compute_profile),
           .placement = {static_cast<unsigned>(device.start),
                         static_cast<unsigned>(device.compute_slices)}};
  return kSuccess;
}

}  // namespace

bool is_divided(const Handle* device) {
  int32_t mig = 0;
  const int status = with_device(device, [&mig](const gpemu_monitor_device& known) {
    mig = known.mig;
    return static_cast<int>(kSuccess);
  });
  return status == kSuccess && mig != 0;
}

bool is_mig_handle(const Handle* device) {
  return place_of_device(device).index >= 0;
}

Handle* gpu_of(const Handle* mig_device) {
  return handle_of(place_of_device(mig_device).index);
}

int mig_device_of(const Handle* device, MigDevice& found) {
  return find_device(place_of_device(device), found);
}

int put_mig_name(const Handle* device, char* name, unsigned length) {
  MigDevice known{};
  if (const int status = mig_device_of(device, known); status != kSuccess) return status;
  const Handle* const gpu = handle_of(place_of_device(device).index);
  return with_device(gpu, [&](const gpemu_monitor_device& board) {
    char text[256];
    std::snprintf(text, sizeof(text), "%s MIG %s",
                  board.product_name[0] == '\0' ? board.gpu : board.product_name, known.name);
    return put_text(text, name, length);
  });
}

int find_mig_device(const char* uuid, Handle** destination) {
  for (int32_t index = 0; index < device_count(); ++index) {
    MigDevice found{};
    const int status = find_device(index, found, [uuid](const MigDevice& device) {
      return std::strcmp(device.uuid, uuid) == 0;
    });
    if (status != kSuccess) continue;
    *destination = device_handle({index, found.gpu_instance, found.compute_instance});
    return kSuccess;
  }
  return kNotFound;
}

}  // namespace nvml

using nvml::ComputeInstance;
using nvml::GpuInstance;

GPEMU_SHIM_EXPORT int nvmlDeviceGetMigMode(Handle* device, unsigned* current, unsigned* pending) {
  if (current == nullptr || pending == nullptr) return nvml::kInvalidArgument;
  return nvml::with_device(device, [&](const gpemu_monitor_device& known) -> int {
    if (known.mig == 0 && !nvml::has_mig(known)) return nvml::kNotSupported;
    *current = known.mig != 0 ? nvml::kEnabled : nvml::kDisabled;
    *pending = known.mig_pending != 0 ? nvml::kEnabled : nvml::kDisabled;
    return nvml::kSuccess;
  });
}
GPEMU_SHIM_EXPORT int nvmlDeviceSetMigMode(Handle* device, unsigned mode, int* activation) {
  if (activation == nullptr || mode > nvml::kEnabled) return nvml::kInvalidArgument;
  unsigned current = 0;
  unsigned pending = 0;
  int status = nvmlDeviceGetMigMode(device, &current, &pending);
  if (status != nvml::kSuccess) return status;
  *activation = nvml::kSuccess;
  if (mode == current && mode == pending) return nvml::kSuccess;
  status = nvml::mig_status(
      gpemu_monitor_set_mig_mode(nvml::index_of(device).index, static_cast<int32_t>(mode)));
  if (status != nvml::kSuccess) return status;
  status = nvmlDeviceGetMigMode(device, &current, &pending);
  if (status == nvml::kSuccess && current != mode) *activation = nvml::kInUse;
  return status;
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetMaxMigDeviceCount(Handle* device, unsigned* count) {
  constexpr unsigned kMost = 7;  // Compute slices.
  return nvml::put(device, count,
                   [](const gpemu_monitor_device& known) { return known.mig != 0 ? kMost : 0U; });
}
GPEMU_SHIM_EXPORT int nvmlDeviceIsMigDeviceHandle(Handle* device, unsigned* is_mig) {
  if (is_mig == nullptr) return nvml::kInvalidArgument;
  if (nvml::is_mig_handle(device)) {
    *is_mig = 1;
    return nvml::kSuccess;
  }
  return nvml::put_constant(device, is_mig, 0U);
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(Handle* device, unsigned number,
                                                          Handle** mig_device) {
  if (mig_device == nullptr) return nvml::kInvalidArgument;
  const auto [index, status] = nvml::index_of(device);
  if (status != nvml::kSuccess) return status;
  MigDevice found{};
  found.struct_size = sizeof(found);
  const int got = nvml::mig_status(
      gpemu_monitor_get_mig_device(index, static_cast<int32_t>(std::min(number, 1000U)), &found));
  if (got == nvml::kSuccess) {
    *mig_device = nvml::device_handle({index, found.gpu_instance, found.compute_instance});
  }
  return got;
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(Handle* mig_device,
                                                                   Handle** device) {
  const nvml::Place place = nvml::place_of_device(mig_device);
  if (device == nullptr || place.index < 0) return nvml::kInvalidArgument;
  *device = nvml::handle_of(place.index);
  return nvml::kSuccess;
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetGpuInstanceId(Handle* device, unsigned* id) {
  const nvml::Place place = nvml::place_of_device(device);
  if (place.index < 0) return nvml::absent(device);
  if (id == nullptr) return nvml::kInvalidArgument;
  *id = static_cast<unsigned>(place.instance);
  return nvml::kSuccess;
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetComputeInstanceId(Handle* device, unsigned* id) {
  const nvml::Place place = nvml::place_of_device(device);
  if (place.index < 0) return nvml::absent(device);
  if (id == nullptr) return nvml::kInvalidArgument;
  *id = static_cast<unsigned>(place.compute);
  return nvml::kSuccess;
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetAttributes_v2(Handle* device, nvml::DeviceAttributes* result) {
  if (result == nullptr) return nvml::kInvalidArgument;
  if (!nvml::is_mig_handle(device)) return nvml::absent(device);
  MigDevice known{};
  if (const int status = nvml::mig_device_of(device, known); status != nvml::kSuccess) {
    return status;
  }
  MigProfile profile{};
  const int status = nvml::find_profile(
      nvml::place_of_device(device).index, profile,
      [&known](const MigProfile& other) { return other.id == known.gpu_instance_profile; });
  if (status != nvml::kSuccess) return status;
  *result = {.multiprocessors = static_cast<unsigned>(known.multiprocessors),
             .copy_engines = static_cast<unsigned>(profile.copy_engines),
             .decoders = static_cast<unsigned>(profile.decoders),
             .encoders = 0,
             .jpegs = static_cast<unsigned>(profile.jpegs),
             .ofas = static_cast<unsigned>(profile.ofas),
             .instance_slices = static_cast<unsigned>(known.gpu_instance_slices),
             .compute_slices = static_cast<unsigned>(known.compute_slices),
             .memory_mib = known.memory_total >> 20};
  return nvml::kSuccess;
}

GPEMU_SHIM_EXPORT int nvmlDeviceGetGpuInstanceProfileInfo(Handle* device, unsigned number,
                                                          nvml::GpuInstanceProfileInfo* info) {
  if (info == nullptr) return nvml::kInvalidArgument;
  MigProfile profile{};
  const int status = nvml::get_profile(device, number, profile);
  if (status != nvml::kSuccess) return status;
  *info = {};
  nvml::fill(*info, profile);
  return nvml::kSuccess;
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetGpuInstanceProfileInfoV(Handle* device, unsigned number,
                                                           void* versioned) {
  if (versioned == nullptr) return nvml::kInvalidArgument;
  MigProfile profile{};
  auto* const second = static_cast<nvml::GpuInstanceProfileInfoV2*>(versioned);
  auto* const third = static_cast<nvml::GpuInstanceProfileInfoV3*>(versioned);
  const bool is_second = nvml::is_version(*second, 2);
  if (!is_second && !nvml::is_version(*third, 3)) return nvml::kArgumentVersionMismatch;
  const int status = nvml::get_profile(device, number, profile);
  if (status != nvml::kSuccess) return status;
  if (is_second) {
    nvml::fill(*second, profile);
    second->peer_access = 0;
    nvml::fill_name(second->name, profile.name);
  } else {
    nvml::fill(*third, profile);
    third->capabilities = 0;
    nvml::fill_name(third->name, profile.name);
  }
  return nvml::kSuccess;
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetGpuInstancePossiblePlacements_v2(Handle* device, unsigned id,
                                                                    nvml::Placement* placements,
                                                                    unsigned* count) {
  MigProfile profile{};
  const int status = nvml::get_profile_by_id(device, id, profile);
  if (status != nvml::kSuccess) return status;
  return nvml::put_placements(profile.starts, profile.start_count, profile.memory_slices,
                              placements, count);
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetGpuInstancePossiblePlacements(Handle* device, unsigned id,
                                                                 nvml::Placement* placements,
                                                                 unsigned* count) {
  return nvmlDeviceGetGpuInstancePossiblePlacements_v2(device, id, placements, count);
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetGpuInstanceRemainingCapacity(Handle* device, unsigned id,
                                                                unsigned* count) {
  if (count == nullptr) return nvml::kInvalidArgument;
  return nvml::with_divided(device, [&](int32_t) -> int {
    MigProfile profile{};
    const int status = nvml::get_profile_by_id(device, id, profile);
    if (status == nvml::kSuccess) *count = static_cast<unsigned>(profile.free_count);
    return status;
  });
}

GPEMU_SHIM_EXPORT int nvmlDeviceCreateGpuInstance(Handle* device, unsigned profile,
                                                  GpuInstance** instance) {
  return nvml::create_instance(device, profile, -1, instance);
}
GPEMU_SHIM_EXPORT int nvmlDeviceCreateGpuInstanceWithPlacement(Handle* device, unsigned profile,
                                                               const nvml::Placement* placement,
                                                               GpuInstance** instance) {
  if (placement == nullptr || placement->start > 7) return nvml::kInvalidArgument;
  return nvml::create_instance(device, profile, static_cast<int32_t>(placement->start), instance);
}
GPEMU_SHIM_EXPORT int nvmlGpuInstanceDestroy(GpuInstance* instance) {
  const nvml::Place place = nvml::place_of_instance(instance);
  if (place.index < 0) return nvml::kInvalidArgument;
  int32_t id = 0;
  return nvml::change(place.index,
                      {.action = GPEMU_MONITOR_MIG_DESTROY, .gpu_instance = place.instance}, &id);
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetGpuInstances(Handle* device, unsigned profile,
                                                GpuInstance** list, unsigned* count) {
  if (list == nullptr || count == nullptr) return nvml::kInvalidArgument;
  return nvml::with_divided(device, [&](int32_t index) -> int {
    unsigned size = 0;
    MigInstance found{};
    const int status = nvml::find(
        found,
        [index](int32_t number, MigInstance* instance) {
          return gpemu_monitor_get_mig_instance(index, number, instance);
        },
        [&](const MigInstance& instance) {
          if (instance.profile == static_cast<int32_t>(profile)) {
            list[size++] = nvml::instance_handle(index, instance.id);
          }
          return false;
        });
    *count = size;
    return status == nvml::kNotFound ? static_cast<int>(nvml::kSuccess) : status;
  });
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetGpuInstanceById(Handle* device, unsigned id,
                                                   GpuInstance** instance) {
  if (instance == nullptr) return nvml::kInvalidArgument;
  return nvml::with_divided(device, [&](int32_t index) -> int {
    MigInstance found{};
    const int status = nvml::find_instance(index, static_cast<int32_t>(std::min(id, 1000U)), found);
    if (status == nvml::kSuccess) *instance = nvml::instance_handle(index, found.id);
    return status;
  });
}
GPEMU_SHIM_EXPORT int nvmlGpuInstanceGetInfo(GpuInstance* instance, nvml::GpuInstanceInfo* info) {
  const nvml::Place place = nvml::place_of_instance(instance);
  if (info == nullptr || place.index < 0) return nvml::kInvalidArgument;
  MigInstance found{};
  const int status = nvml::find_instance(place.index, place.instance, found);
  if (status != nvml::kSuccess) return status;
  *info = {.device = nvml::handle_of(place.index),
           .id = static_cast<unsigned>(found.id),
           .profile = static_cast<unsigned>(found.profile),
           .placement = {static_cast<unsigned>(found.start), static_cast<unsigned>(found.size)}};
  return nvml::kSuccess;
}

GPEMU_SHIM_EXPORT int nvmlGpuInstanceGetComputeInstanceProfileInfo(
    GpuInstance* instance, unsigned number, unsigned engines,
    nvml::ComputeInstanceProfileInfo* info) {
  if (info == nullptr) return nvml::kInvalidArgument;
  MigComputeProfile profile{};
  MigProfile of_instance{};
  const int status = nvml::get_compute_profile(instance, number, engines, profile, of_instance);
  if (status == nvml::kSuccess) nvml::fill(*info, profile, of_instance);
  return status;
}
GPEMU_SHIM_EXPORT int nvmlGpuInstanceGetComputeInstanceProfileInfoV(GpuInstance* instance,
                                                                    unsigned number,
                                                                    unsigned engines,
                                                                    void* versioned) {
  if (versioned == nullptr) return nvml::kInvalidArgument;
  auto* const second = static_cast<nvml::ComputeInstanceProfileInfoV2*>(versioned);
  auto* const third = static_cast<nvml::ComputeInstanceProfileInfoV3*>(versioned);
  const bool is_second = nvml::is_version(*second, 2);
  if (!is_second && !nvml::is_version(*third, 3)) return nvml::kArgumentVersionMismatch;
  MigComputeProfile profile{};
  MigProfile of_instance{};
  const int status = nvml::get_compute_profile(instance, number, engines, profile, of_instance);
  if (status != nvml::kSuccess) return status;
  if (is_second) {
    nvml::fill(*second, profile, of_instance);
    nvml::fill_name(second->name, profile.name);
  } else {
    nvml::fill(*third, profile, of_instance);
    third->capabilities = 0;
    nvml::fill_name(third->name, profile.name);
  }
  return nvml::kSuccess;
}
GPEMU_SHIM_EXPORT int nvmlGpuInstanceGetComputeInstanceRemainingCapacity(GpuInstance* instance,
                                                                         unsigned id,
                                                                         unsigned* count) {
  if (count == nullptr) return nvml::kInvalidArgument;
  MigComputeProfile profile{};
  MigProfile of_instance{};
  const int status = nvml::get_compute_profile(instance, id, 0, profile, of_instance);
  if (status == nvml::kSuccess) *count = static_cast<unsigned>(profile.free_count);
  return status;
}
GPEMU_SHIM_EXPORT int nvmlGpuInstanceGetComputeInstancePossiblePlacements(
    GpuInstance* instance, unsigned id, nvml::Placement* placements, unsigned* count) {
  MigComputeProfile profile{};
  MigProfile of_instance{};
  const int status = nvml::get_compute_profile(instance, id, 0, profile, of_instance);
  if (status != nvml::kSuccess) return status;
  return nvml::put_placements(profile.starts, profile.start_count, profile.slices, placements,
                              count);
}
GPEMU_SHIM_EXPORT int nvmlGpuInstanceCreateComputeInstance(GpuInstance* instance, unsigned profile,
                                                           ComputeInstance** made) {
  return nvml::create_compute(instance, profile, -1, made);
}
GPEMU_SHIM_EXPORT int nvmlGpuInstanceCreateComputeInstanceWithPlacement(
    GpuInstance* instance, unsigned profile, const nvml::Placement* placement,
    ComputeInstance** made) {
  if (placement == nullptr || placement->start > 7) return nvml::kInvalidArgument;
  return nvml::create_compute(instance, profile, static_cast<int32_t>(placement->start), made);
}
GPEMU_SHIM_EXPORT int nvmlComputeInstanceDestroy(ComputeInstance* instance) {
  const nvml::Place place = nvml::place_of_compute(instance);
  if (place.index < 0) return nvml::kInvalidArgument;
  int32_t id = 0;
  return nvml::change(place.index,
                      {.action = GPEMU_MONITOR_MIG_DESTROY_COMPUTE,
                       .gpu_instance = place.instance,
                       .compute_instance = place.compute},
                      &id);
}
GPEMU_SHIM_EXPORT int nvmlGpuInstanceGetComputeInstances(GpuInstance* instance, unsigned profile,
                                                         ComputeInstance** list, unsigned* count) {
  const nvml::Place place = nvml::place_of_instance(instance);
  if (list == nullptr || count == nullptr || place.index < 0) return nvml::kInvalidArgument;
  unsigned size = 0;
  MigDevice found{};
  const int status = nvml::find_device(place.index, found, [&](const MigDevice& device) {
    if (device.gpu_instance == place.instance &&
        device.compute_profile == static_cast<int32_t>(profile)) {
      list[size++] = nvml::compute_handle({place.index, place.instance, device.compute_instance});
    }
    return false;
  });
  *count = size;
  return status == nvml::kNotFound ? static_cast<int>(nvml::kSuccess) : status;
}
GPEMU_SHIM_EXPORT int nvmlGpuInstanceGetComputeInstanceById(GpuInstance* instance, unsigned id,
                                                            ComputeInstance** found) {
  const nvml::Place place = nvml::place_of_instance(instance);
  if (found == nullptr || place.index < 0) return nvml::kInvalidArgument;
  const nvml::Place wanted{place.index, place.instance, static_cast<int32_t>(std::min(id, 1000U))};
  MigDevice device{};
  const int status = nvml::find_device(wanted, device);
  if (status == nvml::kSuccess) *found = nvml::compute_handle(wanted);
  return status;
}
GPEMU_SHIM_EXPORT int nvmlComputeInstanceGetInfo_v2(ComputeInstance* instance,
                                                    nvml::ComputeInstanceInfo* info) {
  return nvml::get_compute_info(instance, info);
}
GPEMU_SHIM_EXPORT int nvmlComputeInstanceGetInfo(ComputeInstance* instance,
                                                 nvml::ComputeInstanceInfo* info) {
  return nvml::get_compute_info(instance, info);
}
