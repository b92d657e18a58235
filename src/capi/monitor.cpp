// SPDX-License-Identifier: Apache-2.0
#include "gpemu/monitor.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <optional>
#include <pthread.h>
#include <string>
#include <utility>
#include <vector>

#include "gpemu/base/log.hpp"
#include "gpemu/base/mutex.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/base/variables.hpp"
#include "gpemu/device/memory_limits.hpp"
#include "gpemu/device/monitor.hpp"
#include "gpemu/device/node_view.hpp"
#include "gpemu/device/part.hpp"
#include "gpemu/process/own_node.hpp"
#include "gpemu/profile/gpu_spec.hpp"
#include "gpemu/profile/topology_spec.hpp"
#include "gpemu/sim/clock.hpp"
#include "gpemu/topology/paths.hpp"
#include "gpemu/topology/peer_copy.hpp"

#include "guard.hpp"
#include "watched.hpp"

namespace gpemu {
namespace {

/// The state of this process's monitor. Never destroyed, because other threads may read until the
/// process ends.
struct Watch {
  gpemu::Mutex mutex;  ///< a thread that holds it takes no other lock, because a fork takes all.
  int users GPEMU_GUARDED_BY(mutex) = 0;
  /// Whether no other process can see the node. Read from the environment at the first attach: a
  /// program may change its environment while threads read the monitor.
  std::atomic<bool> is_private = false;
  /// Null without users.
  std::shared_ptr<device::Monitor> monitor GPEMU_GUARDED_BY(mutex);
  /// The node's devices that this process sees, by the index that they have here,
  std::vector<int> devices GPEMU_GUARDED_BY(mutex);
  /// and how much of their memory it may hold.
  device::MemoryLimits memory_limits GPEMU_GUARDED_BY(mutex);
};

Watch& watch() {
  static auto* const watch = new Watch();
  return *watch;
}

void unlock_after_fork() GPEMU_RELEASES(watch().mutex) {
  if (watch().monitor) watch().monitor->unlock_after_fork();
  watch().mutex.unlock();
}

/// A fork waits until no thread attaches or reads, so that the child does not inherit a lock of a
/// thread that it does not have. Registered when the library is loaded, before any thread can fork.
[[maybe_unused]] const bool kHandlesForks = [] {
  static_cast<void>(watch());
  ::pthread_atfork(
      []() GPEMU_ACQUIRES(watch().mutex) {
        watch().mutex.lock();
        if (watch().monitor) watch().monitor->lock_for_fork();
      },
      unlock_after_fork, unlock_after_fork);
  return true;
}();

/// Returns the value of an environment variable; empty if it is not set.
std::string_view value_of(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// Returns whether this process is to run on a node that no other process can see.
bool wants_private_node() {
  return !value_of(variable::kGpu).empty() && value_of(variable::kNode).empty();
}

Result<std::shared_ptr<device::NodeView>> node_to_watch() {
  if (!wants_private_node()) {
    GPEMU_ASSIGN(const std::string name, device::default_node_name(value_of(variable::kNode)));
    return device::NodeView::open(name);
  }
  if (auto node = process::own_node()) return device::NodeView::of(std::move(node));
  return fail(ErrorCode::kNotFound, "this process has no emulated GPU");
}

/// Returns the node's devices that this process is to see.
Result<std::vector<int>> devices_to_watch(const device::NodeView& node) {
  auto part = device::part_of_node(value_of(variable::kDevices), node.device_count());
  if (part) return part;
  return fail(part.error().code, "{}: {}", variable::kDevices, part.error().message);
}

Result<std::shared_ptr<device::Monitor>> start_watching() {
  GPEMU_ASSIGN(auto node, node_to_watch());
  sim::Clock& clock = node->clock();
  GPEMU_ASSIGN(std::shared_ptr<device::Monitor> monitor,
               device::Monitor::create(std::move(node), clock));
  return monitor;
}

}  // namespace

Result<Watched> watched(int index) {
  Watch& state = watch();
  const gpemu::Lock lock(state.mutex);
  if (state.users == 0) {
    return fail(ErrorCode::kUnavailable, "call gpemu_monitor_attach first");
  }
  if (index < 0 || static_cast<std::size_t>(index) >= state.devices.size()) {
    return fail(ErrorCode::kNotFound, "node '{}' has no device {}: its devices are 0 to {}",
                state.monitor->node().name(), index, state.devices.size() - 1);
  }
  return Watched{state.monitor, state.devices[static_cast<std::size_t>(index)]};
}

Result<std::shared_ptr<device::Node>> node_to_change(const Watched& device) {
  // Nobody can open a private node.
  if (watch().is_private) {
    if (auto node = process::own_node()) return node;
  }
  return device::Node::open(device.monitor->node().name());
}

namespace {

/// Returns the load of the last period. A private node's may be on virtual time, which would jump
/// while the first reading waits.
Result<device::DeviceLoad> load_of(int index) {
  GPEMU_ASSIGN(const Watched device, watched(index));
  if (watch().is_private) {
    return fail(ErrorCode::kUnsupported, "the load of a private node is not measured");
  }
  return device.monitor->load(device.index);
}

gpemu_monitor_device describe(const device::DeviceSnapshot& device) {
  const device::GpuFacts& facts = device.facts;
  gpemu_monitor_device description{.compute_capability_major = facts.compute_capability_major,
                                   .compute_capability_minor = facts.compute_capability_minor,
                                   .multiprocessors = facts.multiprocessors,
                                   .cuda_cores = facts.cuda_cores,
                                   .memory_bus_bits = facts.memory_bus_bits,
                                   .pcie_generation = facts.pcie_generation,
                                   .pcie_lanes = facts.pcie_lanes,
                                   .nvlink_links = facts.nvlink_links,
                                   .nvlink_gpus = facts.nvlink_gpus,
                                   .compute_mode = static_cast<std::int32_t>(device.compute_mode),
                                   .base_clock_mhz = facts.base_clock_mhz,
                                   .boost_clock_mhz = facts.boost_clock_mhz,
                                   .memory_clock_mhz = facts.memory_clock_mhz,
                                   .max_power_w = device.max_power_w,
                                   .idle_power_w = device.idle_power_w,
                                   .mig = device.mig.divided ? 1 : 0,
                                   .mig_pending = device.mig.pending ? 1 : 0,
                                   .has_mig = facts.has_mig,
                                   .nvml_architecture = facts.nvml_architecture,
                                   .nvlink_version = facts.nvlink_version};
  copy_text(description.gpu, device.gpu);
  copy_text(description.product_name, facts.product_name);
  copy_text(description.architecture, facts.architecture);
  copy_text(description.uuid, device.uuid);
  copy_text(description.pci_bus_id, device.pci_bus_id);
  return description;
}

/// Returns what the segment says of a GPU that decides which links join it to others.
profile::GpuSpec links_of(const device::DeviceSnapshot& device) {
  profile::GpuSpec spec;
  spec.name = device.gpu;
  spec.product_name = static_cast<const char*>(device.facts.product_name);
  spec.pcie_generation = device.facts.pcie_generation;
  spec.pcie_lanes = device.facts.pcie_lanes;
  spec.nvlink_gpus = std::max(device.facts.nvlink_gpus, 1);
  // The rate has no meaning here.
  if (device.facts.nvlink_links > 0) spec.nvlink_bytes_per_s = 1;
  return spec;
}

gpemu_monitor_path path_between(const profile::TopologySpec* machine,
                                const device::DeviceSnapshot& first,
                                const device::DeviceSnapshot& second) {
  gpemu_monitor_path path{.pcie = machine == nullptr ? -1 : 0};
  if (first.index == second.index) return {.pcie = 0};
  if (machine != nullptr) {
    const auto place = [machine](const device::DeviceSnapshot& device) {
      return machine->gpus[static_cast<std::size_t>(device.index)];
    };
    path.pcie =
        static_cast<std::int32_t>(topology::pcie_path(*machine, place(first), place(second)));
  }
  if (first.gpu != second.gpu) return path;
  const profile::GpuSpec spec = links_of(first);
  const topology::PeerPath joined =
      machine == nullptr ? topology::peer_path(spec, first.index, second.index)
                         : topology::peer_path(*machine, spec, first.index, second.index);
  path.access = joined.gives_access() ? 1 : 0;
  if (joined.link == topology::LinkClass::kNvlink) {
    path.nvlinks = machine == nullptr
                       ? first.facts.nvlink_links
                       : topology::nvlinks_between(*machine, first.index, second.index);
  }
  return path;
}

/// Returns the index that this process gives to the device at the end of an NVLink, which may be
/// one that it does not see.
std::int32_t seen_here(std::int32_t end) {
  if (end < 0) return end;
  Watch& state = watch();
  const gpemu::Lock lock(state.mutex);
  const auto found = std::ranges::find(state.devices, end);
  return found == state.devices.end() ? GPEMU_MONITOR_NVLINK_UNKNOWN
                                      : static_cast<std::int32_t>(found - state.devices.begin());
}

/// Returns what an NVLink that the device has leads to.
std::int32_t end_of_nvlink(const device::NodeView& node, const device::DeviceSnapshot& device,
                           int link) {
  if (const profile::TopologySpec* machine = node.topology()) {
    if (link < machine->switched_links) return GPEMU_MONITOR_NVLINK_SWITCH;
    return topology::nvlink_peer(*machine, device.index, link)
        .value_or(GPEMU_MONITOR_NVLINK_INACTIVE);
  }
  const int joined = device.facts.nvlink_gpus;
  if (joined < 2) return GPEMU_MONITOR_NVLINK_INACTIVE;
  if (joined > 2) {
    // As topology::fabric_of assumes: up to Volta, GPUs were also joined directly.
    return device.facts.nvlink_switches != 0 ? GPEMU_MONITOR_NVLINK_SWITCH
                                             : GPEMU_MONITOR_NVLINK_UNKNOWN;
  }
  // A bridge: its other end may be empty.
  const int peer = device.index ^ 1;
  return peer < node.device_count() ? peer : GPEMU_MONITOR_NVLINK_INACTIVE;
}

/// Returns what this process sees of a device, as nvidia-smi does, too.
Result<device::DeviceSnapshot> snapshot_seen(int index) {
  GPEMU_ASSIGN(const Watched watched, gpemu::watched(index));
  GPEMU_ASSIGN(device::DeviceSnapshot device, watched.monitor->snapshot(watched.index));
  Watch& state = watch();
  const gpemu::Lock lock(state.mutex);
  state.memory_limits.apply(index, device);
  return device;
}

gpemu_monitor_process describe(const device::ProcessSnapshot& process,
                               const std::vector<device::MigDevice>& mig) {
  gpemu_monitor_process description{.pid = static_cast<std::uint32_t>(process.pid),
                                    .memory_held = process.memory_held,
                                    .mps = process.is_mps_client ? 1 : 0};
  const auto used = std::ranges::find(mig, process.mig_place, &device::MigDevice::compute_place);
  if (used != mig.end()) {
    description.mig = 1;
    description.gpu_instance = used->gpu_instance;
    description.compute_instance = used->compute_instance;
  }
  return description;
}

/// Yields as many elements as the caller has room for, and their number.
template <typename Source, typename Element, typename Convert>
Result<void> put_list(const Source& source, Element* destination, std::int32_t* count,
                      Convert convert) {
  if (*count < 0 || (*count > 0 && destination == nullptr)) {
    return fail(ErrorCode::kInvalidArgument, "there is no room for {} elements", *count);
  }
  std::int32_t index = 0;
  for (const auto& element : source) {
    if (index < *count) destination[index] = convert(element);
    ++index;
  }
  *count = index;
  return {};
}

}  // namespace
}  // namespace gpemu

using gpemu::ErrorCode;
using gpemu::fail;
using gpemu::guard;
using gpemu::require;
using gpemu::Result;

gpemu_status gpemu_monitor_attach(void) {
  return guard([]() -> Result<void> {
    gpemu::Watch& state = gpemu::watch();
    {
      const gpemu::Lock lock(state.mutex);
      if (state.users > 0) {
        ++state.users;
        return {};
      }
    }
    const bool is_private = gpemu::wants_private_node();
    auto monitor = gpemu::start_watching();
    if (!monitor) {
      static std::atomic<bool> logged = false;
      if (!logged.exchange(true)) {
        gpemu::log(gpemu::LogLevel::kWarning, "{}", monitor.error().message);
      }
      return std::unexpected(std::move(monitor).error());
    }
    GPEMU_ASSIGN(std::vector<int> devices, gpemu::devices_to_watch((*monitor)->node()));
    GPEMU_ASSIGN(auto limits, gpemu::device::MemoryLimits::read(std::getenv));
    const gpemu::Lock lock(state.mutex);
    if (state.users++ > 0) return {};
    state.monitor = *std::move(monitor);
    state.devices = std::move(devices);
    state.memory_limits = std::move(limits);
    state.is_private = is_private;
    return {};
  });
}

gpemu_status gpemu_monitor_detach(void) {
  return guard([]() -> Result<void> {
    gpemu::Watch& state = gpemu::watch();
    std::shared_ptr<gpemu::device::Monitor> ended;  // Without the lock: it may end a node.
    const gpemu::Lock lock(state.mutex);
    if (state.users == 0) return fail(ErrorCode::kUnavailable, "nobody is attached");
    if (--state.users == 0) ended = std::move(state.monitor);
    return {};
  });
}

gpemu_status gpemu_monitor_device_count(int32_t* count) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_monitor_device_count", count));
    GPEMU_TRY(gpemu::watched(0));
    gpemu::Watch& state = gpemu::watch();
    const gpemu::Lock lock(state.mutex);
    *count = static_cast<std::int32_t>(state.devices.size());
    return {};
  });
}

const char* gpemu_monitor_driver_version(void) {
  return gpemu::device::kDriverVersion;
}

gpemu_status gpemu_monitor_get_device(int32_t index, gpemu_monitor_device* device) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_monitor_get_device", device));
    GPEMU_ASSIGN(const gpemu::Watched watched, gpemu::watched(index));
    GPEMU_ASSIGN(const gpemu::device::DeviceSnapshot snapshot,
                 watched.monitor->snapshot(watched.index));
    return gpemu::fill(device, gpemu::describe(snapshot), "gpemu_monitor_get_device");
  });
}

gpemu_status gpemu_monitor_set_compute_mode(int32_t index, int32_t compute_mode) {
  return guard([=]() -> Result<void> {
    using gpemu::device::ComputeMode;
    GPEMU_ASSIGN(const gpemu::Watched watched, gpemu::watched(index));
    const auto mode = static_cast<ComputeMode>(compute_mode & 0xff);
    if (compute_mode < 0 || compute_mode > 0xff ||
        (mode != ComputeMode::kDefault && mode != ComputeMode::kProhibited &&
         mode != ComputeMode::kExclusiveProcess)) {
      return fail(ErrorCode::kInvalidArgument, "there is no compute mode {}", compute_mode);
    }
    if (gpemu::watch().is_private) {
      return fail(ErrorCode::kUnsupported, "no other process can use this process's GPU");
    }
    GPEMU_ASSIGN(const auto node, gpemu::device::Node::open(watched.monitor->node().name()));
    return node->settings(watched.index).set_compute_mode(mode);
  });
}

gpemu_status gpemu_monitor_get_path(int32_t index, int32_t peer, gpemu_monitor_path* path) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_monitor_get_path", path));
    GPEMU_ASSIGN(const gpemu::Watched one, gpemu::watched(index));
    GPEMU_ASSIGN(const gpemu::Watched other, gpemu::watched(peer));
    GPEMU_ASSIGN(const gpemu::device::DeviceSnapshot first, one.monitor->snapshot(one.index));
    GPEMU_ASSIGN(const gpemu::device::DeviceSnapshot second, other.monitor->snapshot(other.index));
    return gpemu::fill(path, gpemu::path_between(one.monitor->node().topology(), first, second),
                       "gpemu_monitor_get_path");
  });
}

gpemu_status gpemu_monitor_get_nvlink(int32_t index, int32_t link, int32_t* peer) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_monitor_get_nvlink", peer));
    GPEMU_ASSIGN(const gpemu::Watched watched, gpemu::watched(index));
    GPEMU_ASSIGN(const gpemu::device::DeviceSnapshot device,
                 watched.monitor->snapshot(watched.index));
    if (link < 0 || link >= device.facts.nvlink_links) {
      return fail(ErrorCode::kNotFound, "device {} has {} NVLinks, so there is no link {}", index,
                  device.facts.nvlink_links, link);
    }
    const gpemu::device::NodeView& node = watched.monitor->node();
    const std::int32_t end = gpemu::end_of_nvlink(node, device, link);
    // What a switch leads to is not one device.
    GPEMU_ASSIGN(const gpemu::device::FaultTable faults, node.faults());
    const bool broken =
        faults.nvlink_is_broken(watched.index, end < 0 ? -1 : end, node.clock().now());
    *peer = broken ? GPEMU_MONITOR_NVLINK_INACTIVE : gpemu::seen_here(end);
    return {};
  });
}

gpemu_status gpemu_monitor_get_link_traffic(int32_t index, int32_t link, uint64_t* sent,
                                            uint64_t* received) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_monitor_get_link_traffic", sent, received));
    GPEMU_ASSIGN(const gpemu::Watched watched, gpemu::watched(index));
    GPEMU_ASSIGN(const gpemu::device::DeviceSnapshot device,
                 watched.monitor->snapshot(watched.index));
    const int links = std::min<int>(device.facts.nvlink_links, gpemu::device::kMostNvlinks);
    if (link < -1 || link >= links) {
      return fail(ErrorCode::kNotFound, "device {} has {} NVLinks, so there is no link {}", index,
                  links, link);
    }
    const gpemu::device::LinkTraffic& traffic =
        link < 0 ? device.pcie : device.nvlinks.at(static_cast<std::size_t>(link));
    *sent = traffic.sent;
    *received = traffic.received;
    return {};
  });
}

gpemu_status gpemu_monitor_is_lost(int32_t index, int32_t* lost) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_monitor_is_lost", lost));
    GPEMU_ASSIGN(const gpemu::Watched watched, gpemu::watched(index));
    const gpemu::device::NodeView& node = watched.monitor->node();
    GPEMU_ASSIGN(const gpemu::device::FaultTable faults, node.faults());
    *lost = faults.health(watched.index, node.clock().now()).lost ? 1 : 0;
    return {};
  });
}

gpemu_status gpemu_monitor_get_xids(int32_t index, int32_t* xids, int32_t* count) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_monitor_get_xids", count));
    GPEMU_ASSIGN(const gpemu::Watched watched, gpemu::watched(index));
    const gpemu::device::NodeView& node = watched.monitor->node();
    GPEMU_ASSIGN(const gpemu::device::FaultTable faults, node.faults());
    const auto seen = faults.xids(watched.index, node.clock().now());
    return gpemu::put_list(seen, xids, count,
                           [](const gpemu::device::DeviceXid& xid) { return xid.number; });
  });
}

gpemu_status gpemu_monitor_get_state(int32_t index, gpemu_monitor_state* state) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_monitor_get_state", state));
    GPEMU_ASSIGN(const gpemu::Watched watched, gpemu::watched(index));
    GPEMU_ASSIGN(const gpemu::device::DeviceSnapshot device, gpemu::snapshot_seen(index));
    double energy_j = 0;
    if (!gpemu::watch().is_private) {
      GPEMU_ASSIGN(energy_j, watched.monitor->energy_j(watched.index));
    }
    const gpemu_monitor_state filled{
        .memory_total = device.memory_total,
        .memory_used = device.memory_used,
        // A damaged segment may say anything.
        .energy_mj = static_cast<std::uint64_t>(std::clamp(energy_j * 1000, 0.0, 0x1p63)),
        .process_count = static_cast<std::int32_t>(device.processes.size()),
        .memory_reserved = device.facts.reserved_memory_bytes};
    return gpemu::fill(state, filled, "gpemu_monitor_get_state");
  });
}

gpemu_status gpemu_monitor_get_load(int32_t index, gpemu_monitor_load* load) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_monitor_get_load", load));
    GPEMU_ASSIGN(const gpemu::device::DeviceLoad last, gpemu::load_of(index));
    const gpemu_monitor_load filled{.start_ns = gpemu::to_ns(last.start),
                                    .end_ns = gpemu::to_ns(last.end),
                                    .compute = last.compute,
                                    .copy_h2d = last.copy_h2d,
                                    .copy_d2h = last.copy_d2h,
                                    .h2d_bytes_per_s = last.h2d_bytes_per_s,
                                    .d2h_bytes_per_s = last.d2h_bytes_per_s,
                                    .power_w = last.power_w,
                                    .temperature_c = last.temperature_c,
                                    .sm_clock_mhz = last.sm_clock_mhz,
                                    .performance_state = last.performance_state,
                                    .clock_share = last.clock_share};
    return gpemu::fill(load, filled, "gpemu_monitor_get_load");
  });
}

gpemu_status gpemu_monitor_get_processes(int32_t index, gpemu_monitor_process* processes,
                                         int32_t* count) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_monitor_get_processes", count));
    GPEMU_ASSIGN(const gpemu::Watched watched, gpemu::watched(index));
    GPEMU_ASSIGN(const gpemu::device::DeviceSnapshot device, gpemu::snapshot_seen(index));
    GPEMU_ASSIGN(const std::vector<gpemu::device::MigDevice> mig, gpemu::mig_devices(watched));
    return gpemu::put_list(device.processes, processes, count,
                           [&mig](const gpemu::device::ProcessSnapshot& process) {
                             return gpemu::describe(process, mig);
                           });
  });
}

gpemu_status gpemu_monitor_get_process_loads(int32_t index, gpemu_monitor_process_load* loads,
                                             int32_t* count) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_monitor_get_process_loads", count));
    GPEMU_ASSIGN(gpemu::device::DeviceLoad last, gpemu::load_of(index));
    std::erase_if(last.processes, [](const auto& one) { return one.foreign_namespace != 0; });
    return gpemu::put_list(
        last.processes, loads, count, [](const gpemu::device::ProcessLoad& process) {
          return gpemu_monitor_process_load{.pid = static_cast<std::uint32_t>(process.pid),
                                            .compute = process.compute};
        });
  });
}
