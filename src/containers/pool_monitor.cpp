// SPDX-License-Identifier: Apache-2.0
#include "gpemu/containers/pool_monitor.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <sys/stat.h>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "gpemu/containers/container_edits.hpp"
#include "gpemu/containers/gpu_pool.hpp"
#include "gpemu/sim/clock.hpp"

namespace gpemu::containers {
namespace {

using device::DeviceSnapshot;

constexpr auto kCompute = static_cast<std::size_t>(device::Engine::kCompute);

/// Returns how much a count has grown. One that has fallen was written by somebody else.
template <typename Count>
Count growth(Count before, Count now) {
  return now > before ? now - before : Count{};
}

Bytes over_nvlinks(const DeviceSnapshot& device) {
  Bytes sum = 0;
  for (const device::LinkTraffic& link : device.nvlinks) sum += link.sent + link.received;
  return sum;
}

Duration busy_of(const DeviceSnapshot& device, int tenant) {
  const auto its = std::ranges::find(device.tenants, tenant, &device::TenantSnapshot::tenant);
  return its == device.tenants.end() ? Duration() : its->busy[kCompute];
}

/// Returns whether a GPU can have done so much in a period. What a container has written over is
/// thrown away by it: else, it would be in the sums of the GPU's next container, too.
bool is_possible(const DeviceSnapshot& before, const DeviceSnapshot& now, Duration period) {
  // No GPU has so many clients of MPS that work at the same time, such links, or such a board.
  constexpr double kMostClients = 64, kMostBytesPerS = 1e14, kMostWatts = 1e5;
  const double most_s = to_seconds(period) + 1;
  const auto grew = [](Bytes from, Bytes to) { return static_cast<double>(growth(from, to)); };
  Duration busy = growth(before.engines[kCompute].busy, now.engines[kCompute].busy);
  for (const device::TenantSnapshot& tenant : now.tenants) {
    busy = std::max(busy, growth(busy_of(before, tenant.tenant), tenant.busy[kCompute]));
  }
  const double bytes = grew(before.pcie.received, now.pcie.received) +
                       grew(before.pcie.sent, now.pcie.sent) +
                       grew(over_nvlinks(before), over_nvlinks(now));
  // Not a number compares as false.
  return to_seconds(busy) <= kMostClients * most_s && bytes <= kMostBytesPerS * most_s &&
         now.power.energy_j - before.power.energy_j <= kMostWatts * most_s;
}

/// Returns what tells a node's file from one that is made anew in its place.
std::optional<std::string> identity_of(const std::filesystem::path& folder) {
  struct stat status{};
  if (::stat((folder / kNodeName).c_str(), &status) != 0) return std::nullopt;
  // While it is watched, no other file has its inode.
  return fmt::format("{} {}", folder.string(), status.st_ino);
}

/// Returns a device as it was before it did anything, at a time.
DeviceSnapshot unused(const DeviceSnapshot& device, TimePoint time) {
  DeviceSnapshot before = device;
  before.engines = {};
  before.pcie = {};
  before.nvlinks = {};
  before.tenants.clear();
  before.power.energy_j = device.idle_power_w * to_seconds(time.time_since_epoch());
  return before;
}

}  // namespace

Result<PoolMonitor> PoolMonitor::open(std::filesystem::path folder) {
  PoolMonitor monitor(std::move(folder));
  GPEMU_ASSIGN([[maybe_unused]] const auto uses, monitor.look());
  return monitor;
}

void PoolMonitor::find_nodes(TimePoint since) {
  std::error_code error;
  const auto machine = GpuPool::machine_folder(folder_);
  for (const auto& entry : std::filesystem::directory_iterator(folder_, error)) {
    const auto identity = identity_of(entry.path());
    if (entry.path() == machine || !identity || nodes_.contains(*identity)) continue;
    auto view = device::NodeView::open(kNodeName, entry.path());
    if (!view) continue;
    Watched watched{.view = *std::move(view), .looked = since, .before = {}};
    const TimePoint now = watched.view->clock().now();
    // At the first look of all, what was before does not count.
    if (since == TimePoint()) watched.looked = now;
    for (int i = 0; i < watched.view->device_count(); ++i) {
      auto device = watched.view->device_snapshot(i, now);
      if (!device) break;
      watched.before.push_back(since == TimePoint() ? *device : unused(*device, since));
    }
    if (std::cmp_equal(watched.before.size(), watched.view->device_count())) {
      nodes_.emplace(*identity, std::move(watched));
    }
  }
}

void PoolMonitor::add(const DeviceSnapshot& before, const DeviceSnapshot& now, Duration period,
                      GpuUse& use) {
  Sums& sums = sums_[now.uuid];
  sums.busy += growth(before.engines[kCompute].busy, now.engines[kCompute].busy);
  sums.work_j += std::max(
      now.power.energy_j - before.power.energy_j - now.idle_power_w * to_seconds(period), 0.0);
  sums.received += growth(before.pcie.received, now.pcie.received);
  sums.sent += growth(before.pcie.sent, now.pcie.sent);
  sums.over_nvlinks += growth(over_nvlinks(before), over_nvlinks(now));
  for (const device::TenantSnapshot& tenant : now.tenants) {
    const Duration done = growth(busy_of(before, tenant.tenant), tenant.busy[kCompute]);
    sums.tenants[tenant.tenant] += done;
    use.tenants[tenant.tenant] = {.busy = {},
                                  .compute = std::min(to_seconds(done) / to_seconds(period), 1.0),
                                  .memory_held = tenant.memory_held};
  }
}

void PoolMonitor::look_at(Watched& watched, Uses& uses) {
  const TimePoint now = watched.view->clock().now();
  const auto faults = watched.view->faults();
  if (now <= watched.looked || !faults) return;
  for (int i = 0; i < watched.view->device_count(); ++i) {
    auto device = watched.view->device_snapshot(i, now);
    DeviceSnapshot& before = watched.before[static_cast<std::size_t>(i)];
    // A container that writes another GPU's UUID does not count.
    if (!device || device->uuid != before.uuid || !uses.contains(device->uuid)) continue;
    if (!is_possible(before, *device, now - watched.looked)) {
      before = *std::move(device);
      continue;
    }
    GpuUse& use = uses[device->uuid];
    use.is_divided = use.is_divided || watched.view->policy() == device::SharingPolicy::kMig;
    add(before, *device, now - watched.looked, use);
    use.load = device::load_between(before, *device, watched.looked, now);
    const auto xids = faults->xids(i, now);
    if (!xids.empty()) use.xid = xids.back().number;
    before = *device;
    use.now = *std::move(device);
  }
  watched.looked = now;
}

Result<std::vector<GpuUse>> PoolMonitor::look() {
  const std::filesystem::path folder = GpuPool::machine_folder(folder_);
  const auto opened = device::NodeView::open(kNodeName, folder);
  if (!opened) {
    return fail(opened.error().code, "{} is no folder of a pool of GPUs: {}", folder_.string(),
                opened.error().message);
  }
  const auto& machine = *opened;
  const TimePoint now = machine->clock().now();
  GPEMU_ASSIGN(const device::FaultTable faults, machine->faults());
  Uses uses;
  std::vector<std::string> uuids;
  for (int i = 0; i < machine->device_count(); ++i) {
    GPEMU_ASSIGN(DeviceSnapshot device, machine->device_snapshot(i, now));
    uuids.push_back(device.uuid);
    GpuUse& use = uses[device.uuid];
    use.is_divided = machine->policy() == device::SharingPolicy::kMig;
    use.load = device::load_between(device, device, now - std::chrono::seconds(1), now);
    use.load.power_w = device.idle_power_w;
    use.load.temperature_c = device::temperature_c(device, device.idle_power_w);
    const auto xids = faults.xids(i, now);
    if (!xids.empty()) use.xid = xids.back().number;
    use.now = std::move(device);
  }
  find_nodes(std::exchange(looked_, now));
  // Of nodes that are gone, what they did in the end still counts.
  for (auto node = nodes_.begin(); node != nodes_.end();) {
    look_at(node->second, uses);
    node = node->second.view->over() ? nodes_.erase(node) : std::next(node);
  }
  std::vector<GpuUse> found;
  for (const std::string& uuid : uuids) {
    GpuUse& use = found.emplace_back(std::move(uses[uuid]));
    const Sums& sums = sums_[uuid];
    use.busy = sums.busy;
    use.energy_j = use.now.idle_power_w * to_seconds(now.time_since_epoch()) + sums.work_j;
    use.received = sums.received;
    use.sent = sums.sent;
    use.over_nvlinks = sums.over_nvlinks;
    for (const auto& [tenant, busy] : sums.tenants) use.tenants[tenant].busy = busy;
  }
  return found;
}

}  // namespace gpemu::containers
