// SPDX-License-Identifier: Apache-2.0
//
// MIG in gpemu/monitor.h.
#include <algorithm>
#include <cstdlib>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>
#include <vector>

#include "gpemu/base/variables.hpp"
#include "gpemu/device/mig_layout.hpp"
#include "gpemu/device/node.hpp"
#include "gpemu/device/node_view.hpp"
#include "gpemu/monitor.h"
#include "gpemu/profile/database.hpp"

#include "guard.hpp"
#include "watched.hpp"

namespace gpemu {
namespace {

using device::MigComputeProfile;
using device::MigDevice;
using device::MigInstance;
using device::MigLayout;
using profile::MigProfile;

/// Finds a GPU by name: in the files that GPEMU_GPU_FILES names, or in the database.
Result<profile::GpuSpec> find_gpu(const std::string& name) {
  GPEMU_ASSIGN(const profile::Database database,
               profile::Database::open(profile::Database::default_paths()));
  const char* const files = std::getenv(variable::kGpuFiles);
  for (const auto part : std::views::split(std::string_view(files == nullptr ? "" : files), ':')) {
    const std::string path(std::string_view(part.begin(), part.end()));
    if (path.empty()) continue;
    GPEMU_ASSIGN(profile::GpuSpec spec, database.gpu(path));
    if (spec.name == name) return spec;
  }
  return database.gpu(name);
}

/// A device with its instances.
struct Divided {
  Watched watched;
  std::string uuid;
  std::vector<MigProfile> profiles;
  MigLayout layout{{}};  ///< of these profiles.
};

/// Errors: kUnsupported for a GPU without MIG.
Result<Divided> divide(Watched watched) {
  GPEMU_ASSIGN(const device::DeviceSnapshot now, watched.monitor->snapshot(watched.index));
  GPEMU_ASSIGN(profile::GpuSpec spec, find_gpu(now.gpu));
  if (spec.mig_profiles.empty()) {
    return fail(ErrorCode::kUnsupported, "device {}, a {}, has no MIG", watched.index, now.gpu);
  }
  Divided divided{
      .watched = std::move(watched), .uuid = now.uuid, .profiles = std::move(spec.mig_profiles)};
  GPEMU_ASSIGN(divided.layout,
               divided.watched.monitor->node().mig_layout(divided.watched.index, divided.profiles));
  return divided;
}

Result<Divided> divided(int index) {
  GPEMU_ASSIGN(Watched watched, gpemu::watched(index));
  return divide(std::move(watched));
}

/// Errors: kNotFound if a list has no element of that number.
template <typename List>
Result<void> check_number(std::int32_t number, const List& list, std::string_view what) {
  if (number >= 0 && static_cast<std::size_t>(number) < list.size()) return {};
  return fail(ErrorCode::kNotFound, "there are {} {}, so there is no number {}", list.size(), what,
              number);
}

template <typename Starts>
std::int32_t copy_starts(std::int32_t (&destination)[8], const Starts& starts) {
  std::ranges::copy(starts | std::views::take(8), destination);
  return static_cast<std::int32_t>(std::min<std::size_t>(starts.size(), 8));
}

gpemu_monitor_mig_profile describe(const MigLayout& layout, const MigProfile& profile) {
  gpemu_monitor_mig_profile description{.id = profile.id,
                                        .nvml_profile = profile.nvml_profile,
                                        .compute_slices = profile.compute_slices,
                                        .memory_slices = profile.memory_slices,
                                        .max_count = profile.max_instances(),
                                        .free_count = layout.free_count(profile),
                                        .multiprocessors = profile.multiprocessors.value_or(0),
                                        .copy_engines = profile.copy_engines,
                                        .decoders = profile.decoders.value_or(0),
                                        .jpegs = profile.jpegs.value_or(0),
                                        .ofas = profile.ofas,
                                        .media_extensions = profile.media_extensions ? 1 : 0,
                                        .memory_bytes = profile.memory_bytes.value_or(0)};
  copy_text(description.name, profile.name);
  description.start_count = copy_starts(description.starts, profile.starts);
  return description;
}

gpemu_monitor_mig_compute_profile describe(const MigLayout& layout, const MigInstance& instance,
                                           const MigComputeProfile& kind) {
  const MigProfile& profile = *layout.profile(instance.profile);
  gpemu_monitor_mig_compute_profile description{
      .id = kind.id,
      .slices = kind.slices,
      .max_count = static_cast<std::int32_t>(kind.starts.size()),
      .free_count = MigLayout::free_count(instance, kind),
      .multiprocessors = layout.multiprocessors_of(profile, kind).value_or(0)};
  copy_text(description.name, MigLayout::name_of(profile, kind));
  description.start_count = copy_starts(description.starts, kind.starts);
  return description;
}

Result<gpemu_monitor_mig_device> describe(const Divided& gpu, const MigDevice& device) {
  GPEMU_ASSIGN(const Bytes used,
               gpu.watched.monitor->node().mig_memory_used(gpu.watched.index, device.memory_place));
  const device::MigComputeInstance& compute =
      *gpu.layout.compute_instance(device.gpu_instance, device.compute_instance);
  gpemu_monitor_mig_device description{
      .gpu_instance = device.gpu_instance,
      .compute_instance = device.compute_instance,
      .gpu_instance_profile = device.profile,
      .compute_profile = compute.profile,
      .gpu_instance_slices = gpu.layout.profile(device.profile)->compute_slices,
      .compute_slices = device.compute_slices,
      .start = compute.start,
      .multiprocessors = device.multiprocessors,
      .memory_total = device.memory_bytes,
      .memory_used = std::min(used, device.memory_bytes)};
  copy_text(description.name, device.name);
  copy_text(description.uuid, device.uuid);
  return description;
}

/// Makes a change in a layout, and returns the instance's id.
Result<int> apply(const gpemu_monitor_mig_change& change, MigLayout& layout) {
  const std::optional<int> start = change.start < 0 ? std::nullopt : std::optional(change.start);
  switch (change.action) {
    case GPEMU_MONITOR_MIG_CREATE:
      return layout.create(change.profile, start);
    case GPEMU_MONITOR_MIG_CREATE_COMPUTE:
      return layout.create_compute(change.gpu_instance, change.profile, start);
    case GPEMU_MONITOR_MIG_DESTROY:
      GPEMU_TRY(layout.destroy(change.gpu_instance));
      return change.gpu_instance;
    case GPEMU_MONITOR_MIG_DESTROY_COMPUTE:
      GPEMU_TRY(layout.destroy_compute(change.gpu_instance, change.compute_instance));
      return change.compute_instance;
    default:
      return fail(ErrorCode::kInvalidArgument, "there is no action {}", change.action);
  }
}

Result<int> change_mig(int index, const gpemu_monitor_mig_change& change) {
  GPEMU_ASSIGN(const Divided gpu, divided(index));
  GPEMU_ASSIGN(const auto node, device::Node::open(gpu.watched.monitor->node().name()));
  int id = -1;
  Result<void> changed =
      node->mig(gpu.watched.index).change(gpu.profiles, [&](MigLayout& layout) -> Result<void> {
        GPEMU_ASSIGN(id, apply(change, layout));
        return {};
      });
  if (changed) return id;
  const bool creates = change.action == GPEMU_MONITOR_MIG_CREATE ||
                       change.action == GPEMU_MONITOR_MIG_CREATE_COMPUTE;
  if (changed.error().code == ErrorCode::kUnavailable) {
    changed.error().code = creates ? ErrorCode::kResourceLimit : ErrorCode::kNotReady;
  }
  return std::unexpected(changed.error());
}

}  // namespace

Result<std::vector<MigDevice>> mig_devices(const Watched& watched) {
  if (watched.monitor->node().policy() != device::SharingPolicy::kMig) {
    return std::vector<MigDevice>();
  }
  GPEMU_ASSIGN(const Divided gpu, divide(watched));
  return gpu.layout.devices(gpu.watched.index, gpu.uuid);
}

}  // namespace gpemu

using gpemu::guard;
using gpemu::require;
using gpemu::Result;

gpemu_status gpemu_monitor_get_mig_profile(int32_t index, int32_t number,
                                           gpemu_monitor_mig_profile* profile) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_monitor_get_mig_profile", profile));
    GPEMU_ASSIGN(const gpemu::Divided gpu, gpemu::divided(index));
    GPEMU_TRY(gpemu::check_number(number, gpu.profiles, "profiles"));
    const auto& found = gpu.profiles[static_cast<std::size_t>(number)];
    return gpemu::fill(profile, gpemu::describe(gpu.layout, found),
                       "gpemu_monitor_get_mig_profile");
  });
}

gpemu_status gpemu_monitor_get_mig_instance(int32_t index, int32_t number,
                                            gpemu_monitor_mig_instance* instance) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_monitor_get_mig_instance", instance));
    GPEMU_ASSIGN(const gpemu::Divided gpu, gpemu::divided(index));
    std::vector<gpemu::MigInstance> instances = gpu.layout.instances();
    std::ranges::sort(instances, {}, &gpemu::MigInstance::id);
    GPEMU_TRY(gpemu::check_number(number, instances, "GPU instances"));
    const gpemu::MigInstance& found = instances[static_cast<std::size_t>(number)];
    const gpemu_monitor_mig_instance filled{
        .id = found.id,
        .profile = found.profile,
        .start = found.start,
        .size = gpu.layout.profile(found.profile)->memory_slices};
    return gpemu::fill(instance, filled, "gpemu_monitor_get_mig_instance");
  });
}

gpemu_status gpemu_monitor_get_mig_compute_profile(int32_t index, int32_t gpu_instance,
                                                   int32_t number,
                                                   gpemu_monitor_mig_compute_profile* profile) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_monitor_get_mig_compute_profile", profile));
    GPEMU_ASSIGN(const gpemu::Divided gpu, gpemu::divided(index));
    const gpemu::MigInstance* const instance = gpu.layout.instance(gpu_instance);
    if (instance == nullptr) {
      return gpemu::fail(gpemu::ErrorCode::kNotFound, "device {} has no GPU instance {}", index,
                         gpu_instance);
    }
    const auto kinds =
        gpemu::device::mig_compute_profiles(gpu.layout.profile(instance->profile)->compute_slices);
    GPEMU_TRY(gpemu::check_number(number, kinds, "profiles"));
    return gpemu::fill(
        profile, gpemu::describe(gpu.layout, *instance, kinds[static_cast<std::size_t>(number)]),
        "gpemu_monitor_get_mig_compute_profile");
  });
}

gpemu_status gpemu_monitor_get_mig_device(int32_t index, int32_t number,
                                          gpemu_monitor_mig_device* device) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_monitor_get_mig_device", device));
    GPEMU_ASSIGN(const gpemu::Divided gpu, gpemu::divided(index));
    const auto devices = gpu.layout.devices(gpu.watched.index, gpu.uuid);
    GPEMU_TRY(gpemu::check_number(number, devices, "MIG devices"));
    GPEMU_ASSIGN(const gpemu_monitor_mig_device filled,
                 gpemu::describe(gpu, devices[static_cast<std::size_t>(number)]));
    return gpemu::fill(device, filled, "gpemu_monitor_get_mig_device");
  });
}

gpemu_status gpemu_monitor_change_mig(int32_t index, const gpemu_monitor_mig_change* change,
                                      int32_t* id) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_monitor_change_mig", change, id));
    if (change->struct_size < sizeof(*change)) {
      return gpemu::fail(gpemu::ErrorCode::kInvalidArgument,
                         "set struct_size to the size of gpemu_monitor_mig_change");
    }
    GPEMU_ASSIGN(*id, gpemu::change_mig(index, *change));
    return {};
  });
}

gpemu_status gpemu_monitor_set_mig_mode(int32_t index, int32_t mode) {
  return guard([=]() -> Result<void> {
    GPEMU_ASSIGN(const gpemu::Divided gpu, gpemu::divided(index));
    if (mode != 0 && mode != 1) {
      return gpemu::fail(gpemu::ErrorCode::kInvalidArgument, "there is no MIG mode {}", mode);
    }
    if (gpu.watched.monitor->node().policy() != gpemu::device::SharingPolicy::kMig) {
      return gpemu::fail(gpemu::ErrorCode::kUnsupported, "the node does not divide its GPUs");
    }
    GPEMU_ASSIGN(const auto node, gpemu::device::Node::open(gpu.watched.monitor->node().name()));
    GPEMU_TRY(node->mig(gpu.watched.index).set_mode(gpu.profiles, mode == 1));
    return {};
  });
}
