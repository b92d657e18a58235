// SPDX-License-Identifier: Apache-2.0
#include "gpemu/process/attach.hpp"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <pthread.h>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "gpemu/base/mutex.hpp"
#include "gpemu/base/variables.hpp"
#include "gpemu/device/device_config.hpp"
#include "gpemu/device/part.hpp"
#include "gpemu/process/log.hpp"
#include "gpemu/process/mps.hpp"
#include "gpemu/process/own_node.hpp"
#include "gpemu/process/recorder.hpp"
#include "gpemu/process/settings.hpp"
#include "gpemu/profile/database.hpp"
#include "gpemu/profile/mig_device.hpp"
#include "gpemu/sim/shared_clock.hpp"
#include "gpemu/topology/peer_copy.hpp"
#include "gpemu/topology/shared_links.hpp"

#include "device_info.hpp"
#include "visible_devices.hpp"

namespace gpemu::process {
namespace {

/// A fork waits until no thread attaches or makes a context, so that the child does not inherit a
/// lock of a thread that it does not have. Registered when the library is loaded, before any thread
/// can fork, and last: here and elsewhere, the lock of the process is taken before the others.
[[maybe_unused]] const bool kHandlesForks = [] {
  device::handle_forks();
  handle_forks_of_recorder();
  ::pthread_atfork([]() GPEMU_ACQUIRES(process().mutex) { process().mutex.lock(); },
                   []() GPEMU_RELEASES(process().mutex) { process().mutex.unlock(); },
                   []() GPEMU_RELEASES(process().mutex) {
                     if (process().phase == Phase::kAttached) process().phase = Phase::kForked;
                     close_mps_in_child();
                     process().mutex.unlock();
                   });
  return true;
}();

/// Finds a GPU by name: in the files that describe GPUs, or in the database.
Result<profile::GpuSpec> find_gpu(const profile::Database& database,
                                  const std::vector<std::string>& files, const std::string& name) {
  for (const std::string& path : files) {
    GPEMU_ASSIGN(profile::GpuSpec spec, database.gpu(path));
    if (spec.name == name) return spec;
  }
  return database.gpu(name);
}

/// A device that the program sees.
struct ShownDevice {
  int index = 0;  ///< in the node.
  int place = 0;  ///< among the devices that the program could see.
  std::optional<device::MigDevice> mig;
};

/// Returns the MIG devices of GPUs of the node; the GPUs have places in `part` as numbers.
Result<std::vector<device::MigDevice>> mig_devices(const Process& state,
                                                   const profile::Database& database,
                                                   const std::vector<int>& part,
                                                   const std::vector<std::string>& uuids) {
  std::vector<device::MigDevice> devices;
  for (std::size_t place = 0; place < part.size(); ++place) {
    const std::string gpu = state.node->device_snapshot(part[place], state.clock->now()).gpu;
    GPEMU_ASSIGN(const profile::GpuSpec spec, find_gpu(database, state.settings->gpu_files, gpu));
    const device::MigLayout layout = state.node->mig(part[place]).layout(spec.mig_profiles);
    for (device::MigDevice& found : layout.devices(static_cast<int>(place), uuids[place])) {
      devices.push_back(std::move(found));
    }
  }
  return devices;
}

/// Returns the devices that the program may see.
Result<std::vector<ShownDevice>> devices_to_show(const Process& state,
                                                 const profile::Database& database, TimePoint now) {
  const device::Node& node = *state.node;
  auto part = device::part_of_node(state.settings->devices, node.device_count());
  if (!part) {
    return fail(part.error().code, "{}: {}", variable::kDevices, part.error().message);
  }
  std::vector<std::string> uuids;
  for (const int index : *part) uuids.push_back(node.device_snapshot(index, now).uuid);
  std::vector<ShownDevice> shown;
  if (node.policy() == device::SharingPolicy::kMig) {
    GPEMU_ASSIGN(std::vector<device::MigDevice> devices,
                 mig_devices(state, database, *part, uuids));
    // With one, there is nothing else. Source: NVIDIA Multi-Instance GPU User Guide, CUDA Device
    // Enumeration.
    if (const auto found = visible_mig_device(state.settings->visible_devices, uuids, devices)) {
      device::MigDevice& device = devices[*found];
      device.gpu = (*part)[static_cast<std::size_t>(device.gpu)];
      const int place = static_cast<int>(std::ranges::find(*part, device.gpu) - part->begin());
      shown.push_back({.index = device.gpu, .place = place, .mig = std::move(device)});
      return shown;
    }
  }
  if (state.mps != nullptr && state.mps->devices()) {
    // The program's numbers are those of the devices that the control daemon sees.
    const std::vector<int> all = std::exchange(*part, {});
    const std::vector<std::string> all_uuids = std::exchange(uuids, {});
    for (const int place : visible_devices(*state.mps->devices(), all_uuids)) {
      part->push_back(all[static_cast<std::size_t>(place)]);
      uuids.push_back(all_uuids[static_cast<std::size_t>(place)]);
    }
  }
  for (const int place : visible_devices(state.settings->visible_devices, uuids)) {
    const int index = (*part)[static_cast<std::size_t>(place)];
    if (node.mig(index).mode().divided) continue;
    shown.push_back({.index = index, .place = place, .mig = {}});
  }
  return shown;
}

Result<void> open_node(Process& state, const profile::Database& database) {
  const Settings& settings = *state.settings;
  if (!settings.node.empty()) {
    device::end_when_cut_short();
    GPEMU_ASSIGN(state.node, device::Node::open(settings.node));
    state.clock = std::make_unique<sim::SharedClock>(state.node->clock().page());
    state.time_is_real = true;
    return {};
  }
  if (settings.virtual_clock) {
    state.clock = std::make_unique<sim::VirtualClock>();
  } else {
    state.clock = std::make_unique<sim::RealClock>();
    state.time_is_real = true;
  }
  if (settings.gpu.empty()) {
    return fail(ErrorCode::kNotFound,
                "no emulated GPU: start the program with `gpemu run --gpu NAME -- PROGRAM`, or set "
                "GPEMU_NODE or GPEMU_GPU");
  }
  GPEMU_ASSIGN(const profile::GpuSpec spec, find_gpu(database, settings.gpu_files, settings.gpu));
  device::NodeConfig config{.name = "private", .devices = {device::device_config(spec)}};
  device::DeviceConfig& only = config.devices.front();
  if (settings.memory) {
    only.memory_bytes = *settings.memory;
    only.facts.reserved_memory_bytes = 0;
  }
  if (state.settings->compute_shares.any()) config.policy = device::SharingPolicy::kTimeSlices;
  GPEMU_ASSIGN(state.node, device::Node::create_private(config));
  return {};
}

/// Makes a GPU, with its state, one of its MIG devices. `gpus`: of the node.
void become_mig_device(DeviceState& device, device::DeviceSnapshot& snapshot,
                       const device::MigDevice& mig, int gpus) {
  device.mig = mig;
  device.place = gpus + mig.gpu * device::kMostMigSlices + mig.compute_place;
  device.spec = profile::mig_device_spec(device.spec, {.name = mig.name,
                                                       .multiprocessors = mig.multiprocessors,
                                                       .memory_slices = mig.memory_slices,
                                                       .memory_bytes = mig.memory_bytes});
  snapshot.uuid = mig.uuid;
  snapshot.memory_total = mig.memory_bytes;
}

/// Becomes a client of MPS, if there is any. If it is refused, `state.failure` has the status.
Result<void> join_mps(Process& state) {
  auto joined = MpsMember::join(*state.node, *state.settings);
  if (!joined) {
    state.failure = joined.error().status;
    return fail(ErrorCode::kUnavailable, "{}", joined.error().message);
  }
  state.mps = joined->release();
  return {};
}

/// Makes this process a client of MPS on a device, of which it may then use a part.
void limit_by_mps(const MpsMember& mps, DeviceState& device) {
  const int all = device.spec.multiprocessors;
  device.spec =
      profile::with_multiprocessors(device.spec, mps::multiprocessors_of(mps.percentage(), all));
  device.info.multiprocessors = device.spec.multiprocessors;
  device.mps_client = mps.client_on(device, all);
  device.has_faults = true;
}

Result<void> attach_now(Process& state) {
  state.failure = GPEMU_CUDA_ERROR_NO_DEVICE;
  GPEMU_ASSIGN(state.settings, read_settings(std::getenv));
  GPEMU_ASSIGN(const profile::Database database,
               profile::Database::open(profile::Database::default_paths()));
  GPEMU_TRY(open_node(state, database));
  GPEMU_TRY(join_mps(state));
  state.node->set_priority(state.settings->priority);
  const TimePoint now = state.clock->now();
  state.attached = now;
  int ordinal = 0;
  GPEMU_ASSIGN(const std::vector<ShownDevice> shown, devices_to_show(state, database, now));
  for (const auto& [index, place, mig] : shown) {
    device::DeviceSnapshot snapshot = state.node->device_snapshot(index, now);
    DeviceState& device = *state.devices.emplace_back(std::make_unique<DeviceState>());
    device.ordinal = ordinal++;
    device.index = index;
    device.place = index;
    GPEMU_ASSIGN(device.spec, find_gpu(database, state.settings->gpu_files, snapshot.gpu));
    if (mig) become_mig_device(device, snapshot, *mig, state.node->device_count());
    device.memory_limit = state.settings->memory_limits.limit(place, snapshot.memory_total);
    device.compute_share = state.settings->compute_shares.of(place);
    snapshot.memory_total = device.memory_limit.value_or(snapshot.memory_total);
    device.has_faults = state.node->faults().has_any(index);
    device.machine = state.node->topology();
    if (device.machine != nullptr) {
      device.links_from_host = topology::shared_links(*device.machine, device.spec, index, false);
      device.links_to_host = topology::shared_links(*device.machine, device.spec, index, true);
      device.spec.pinned_copy_bytes_per_s =
          topology::host_copy_rate(*device.machine, device.spec, index);
    }
    device.uuid = snapshot.uuid;
    device.mps_number = place;
    device.info = describe_device(device.spec, snapshot);
    if (state.mps != nullptr && !mig) limit_by_mps(*state.mps, device);
    device.multiprocessor_share = 1.0 / std::max(device.info.multiprocessors, 1);
    device.costs = std::make_unique<cost::OperationCostModel>(device.spec);
  }
  if (state.mps != nullptr) state.mps->start();
  return {};
}

Status status_of(Phase phase) {
  return phase == Phase::kAttached ? GPEMU_CUDA_SUCCESS
         : phase == Phase::kForked ? GPEMU_CUDA_ERROR_NOT_INITIALIZED
                                   : process().failure.load();
}

/// Attaches, unless that was done or attempted before.
Status attach_first(Phase phase) {
  if (phase != Phase::kDetached) return status_of(phase);
  Process& state = process();
  Lock lock(state.mutex);
  if (state.phase != Phase::kDetached) return status_of(state.phase);
  const Result<void> attached = attach_now(state);
  // A server that is not ready now may be so at the next call.
  const bool tries_again = !attached && state.failure == GPEMU_CUDA_ERROR_MPS_SERVER_NOT_READY;
  if (tries_again) {
    state.node.reset();
    state.clock.reset();
  } else {
    state.phase = attached && !state.devices.empty() ? Phase::kAttached : Phase::kFailed;
  }
  const Status status = tries_again ? state.failure.load() : status_of(state.phase);
  lock.unlock();
  // A callback of the log may fork.
  if (!attached) tell(attached.error().message);
  return status;
}

}  // namespace

Status attach() {
  // Every call comes here.
  const Phase phase = process().phase.load(std::memory_order_acquire);
  return phase == Phase::kAttached ? GPEMU_CUDA_SUCCESS : attach_first(phase);
}

bool forked() {
  return process().phase.load(std::memory_order_acquire) == Phase::kForked;
}

std::shared_ptr<device::Node> own_node() {
  return attach() == GPEMU_CUDA_SUCCESS ? process().node : nullptr;
}

}  // namespace gpemu::process
