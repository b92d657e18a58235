// SPDX-License-Identifier: Apache-2.0
#include "gpemu/device/monitor.hpp"

#include <algorithm>
#include <utility>

namespace gpemu::device {
namespace {

double share(Duration before, Duration after, Duration period) {
  return std::clamp(to_seconds(after - before) / to_seconds(period), 0.0, 1.0);
}

double rate(Bytes before, Bytes after, Duration period) {
  return static_cast<double>(after - std::min(before, after)) / to_seconds(period);
}

/// Returns the compute time that a process had used at a snapshot; zero if it did not exist then.
Duration compute_time(const DeviceSnapshot& snapshot, const ProcessSnapshot& process) {
  const auto found =
      std::ranges::find_if(snapshot.processes, [&process](const ProcessSnapshot& other) {
        return other.pid == process.pid && other.foreign_namespace == process.foreign_namespace;
      });
  return found == snapshot.processes.end() ? Duration::zero() : found->busy[0];
}

}  // namespace

DeviceLoad load_between(const DeviceSnapshot& before, const DeviceSnapshot& after, TimePoint start,
                        TimePoint end) {
  const Duration period = end - start;
  DeviceLoad load{.start = start, .end = end};
  load.compute = share(before.engines[0].busy, after.engines[0].busy, period);
  load.copy_h2d = share(before.engines[1].busy, after.engines[1].busy, period);
  load.copy_d2h = share(before.engines[2].busy, after.engines[2].busy, period);
  load.h2d_bytes_per_s = rate(before.pcie.received, after.pcie.received, period);
  load.d2h_bytes_per_s = rate(before.pcie.sent, after.pcie.sent, period);
  load.power_w = std::clamp((after.power.energy_j - before.power.energy_j) / to_seconds(period),
                            0.0, std::max(after.max_power_w, after.idle_power_w));
  const double dynamic_w = std::max(load.power_w - after.idle_power_w, 0.0);
  load.temperature_c = temperature_c(after, load.power_w);
  load.sm_clock_mhz = sm_clock_mhz(after, load.compute);
  load.clock_share = after.health.clock;
  // As on boards: P0 if a process has a context, P8 without. Source: nvidia-smi of A10 and T4
  // boards.
  load.performance_state = after.processes.empty() ? 8 : 0;
  for (const ProcessSnapshot& process : after.processes) {
    load.processes.push_back(
        {.pid = process.pid,
         .foreign_namespace = process.foreign_namespace,
         .compute = share(compute_time(before, process), process.busy[0], period)});
    ProcessLoad& added = load.processes.back();
    if (load.compute > 0) added.power_w = dynamic_w * std::min(added.compute / load.compute, 1.0);
  }
  return load;
}

double temperature_c(const DeviceSnapshot& device, double power) {
  if (device.max_power_w <= 0) return kAmbientTemperatureC;
  return kAmbientTemperatureC +
         (kFullTemperatureC - kAmbientTemperatureC) * power / device.max_power_w;
}

double sm_clock_mhz(const DeviceSnapshot& device, double compute) {
  const double most = device.power.clock * device.facts.boost_clock_mhz;
  const double base = device.facts.base_clock_mhz;
  return device.health.clock * (compute > 0 || base <= 0 ? most : std::min(base, most));
}

Monitor::Monitor(std::shared_ptr<NodeView> node, sim::Clock& clock, Duration min_period,
                 std::vector<Watched> devices)
    : node_(std::move(node)),
      clock_(clock),
      min_period_(min_period),
      devices_(std::move(devices)) {}

Result<std::unique_ptr<Monitor>> Monitor::create(std::shared_ptr<NodeView> node, sim::Clock& clock,
                                                 Duration min_period) {
  GPEMU_CHECK(min_period > Duration::zero(), "a load needs a period");
  std::vector<Watched> devices;
  for (int i = 0; i < node->device_count(); ++i) {
    const TimePoint now = clock.now();
    GPEMU_ASSIGN(DeviceSnapshot before, node->device_snapshot(i, now));
    devices.push_back({.start = now, .before = std::move(before), .last = {}});
  }
  return std::unique_ptr<Monitor>(
      new Monitor(std::move(node), clock, min_period, std::move(devices)));
}

Result<DeviceLoad> Monitor::load(int index) {
  GPEMU_CHECK(index >= 0 && index < node_->device_count(), "device index out of range");
  TimePoint now = clock_.now();
  Lock lock(mutex_);
  Watched& device = devices_[static_cast<std::size_t>(index)];
  const TimePoint begin = device.start;
  const bool first = device.last.end == TimePoint();
  if (!first && now - begin < min_period_) return device.last;
  lock.unlock();
  if (first) {
    clock_.wait_until(begin + min_period_);
    now = clock_.now();
  }
  GPEMU_ASSIGN(DeviceSnapshot after, node_->device_snapshot(index, now));
  lock.lock();
  if (device.start != begin) return device.last;  // Another thread ended this period first.
  device.last = load_between(device.before, after, device.start, now);
  device.start = now;
  device.before = std::move(after);
  return device.last;
}

Result<DeviceSnapshot> Monitor::snapshot(int index) const {
  return node_->device_snapshot(index, clock_.now());
}

Result<double> Monitor::energy_j(int index) const {
  GPEMU_ASSIGN(const DeviceSnapshot device, node_->device_snapshot(index, clock_.now()));
  return device.power.energy_j;
}

}  // namespace gpemu::device
