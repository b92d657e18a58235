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
  return static_cast<double>(after - before) / to_seconds(period);
}

/// Returns the compute time that a process had used at a snapshot; zero when it was not there.
Duration compute_time(const DeviceSnapshot& snapshot, pid_t pid) {
  const auto found = std::ranges::find(snapshot.processes, pid, &ProcessSnapshot::pid);
  return found == snapshot.processes.end() ? Duration::zero() : found->busy[0];
}

DeviceLoad load_between(const DeviceSnapshot& before, const DeviceSnapshot& after, TimePoint start,
                        TimePoint end) {
  const Duration period = end - start;
  DeviceLoad load{.start = start, .end = end};
  load.compute = share(before.engines[0].busy, after.engines[0].busy, period);
  load.copy_h2d = share(before.engines[1].busy, after.engines[1].busy, period);
  load.copy_d2h = share(before.engines[2].busy, after.engines[2].busy, period);
  load.h2d_bytes_per_s = rate(before.engines[1].bytes, after.engines[1].bytes, period);
  load.d2h_bytes_per_s = rate(before.engines[2].bytes, after.engines[2].bytes, period);
  load.power_w = power_w(after, load.compute);
  load.temperature_c = temperature_c(after, load.power_w);
  load.sm_clock_mhz = sm_clock_mhz(after, load.compute);
  // As boards do: P0 for whoever has a context, P8 without. Source: nvidia-smi of A10 and T4
  // boards.
  load.performance_state = after.processes.empty() ? 8 : 0;
  for (const ProcessSnapshot& process : after.processes) {
    load.processes.push_back(
        {.pid = process.pid,
         .compute = share(compute_time(before, process.pid), process.busy[0], period)});
  }
  return load;
}

}  // namespace

double power_w(const DeviceSnapshot& device, double compute) {
  return device.idle_power_w + (device.max_power_w - device.idle_power_w) * compute;
}

double temperature_c(const DeviceSnapshot& device, double power) {
  if (device.max_power_w <= 0) return kAmbientTemperatureC;
  return kAmbientTemperatureC +
         (kFullTemperatureC - kAmbientTemperatureC) * power / device.max_power_w;
}

double sm_clock_mhz(const DeviceSnapshot& device, double compute) {
  const GpuFacts& facts = device.facts;
  return compute > 0 || facts.base_clock_mhz <= 0 ? facts.boost_clock_mhz : facts.base_clock_mhz;
}

Monitor::Monitor(std::shared_ptr<Node> node, sim::Clock& clock, Duration min_period)
    : node_(std::move(node)), clock_(clock), min_period_(min_period), looked_for_dead_() {
  GPEMU_CHECK(min_period > Duration::zero(), "a load needs a period");
  node_->recover_dead_processes();
  looked_for_dead_ = clock_.now();
  for (int i = 0; i < node_->device_count(); ++i) {
    const TimePoint now = clock_.now();
    devices_.push_back({.start = now, .before = node_->device_snapshot(i, now), .last = {}});
  }
}

void Monitor::drop_dead(TimePoint now) {
  if (now - looked_for_dead_ < min_period_) return;
  looked_for_dead_ = now;
  node_->recover_dead_processes();
}

DeviceLoad Monitor::load(int index) {
  GPEMU_CHECK(index >= 0 && index < node_->device_count(), "device index out of range");
  const std::lock_guard lock(mutex_);
  Watched& device = devices_[static_cast<std::size_t>(index)];
  if (device.last.end == TimePoint()) clock_.wait_until(device.start + min_period_);
  TimePoint now = clock_.now();
  if (now - device.start < min_period_) return device.last;
  drop_dead(now);
  now = clock_.now();
  DeviceSnapshot after = node_->device_snapshot(index, now);
  device.last = load_between(device.before, after, device.start, now);
  device.start = now;
  device.before = std::move(after);
  return device.last;
}

DeviceSnapshot Monitor::snapshot(int index) {
  {
    const std::lock_guard lock(mutex_);
    drop_dead(clock_.now());
  }
  return node_->device_snapshot(index, clock_.now());
}

double Monitor::energy_j(int index) {
  const TimePoint now = clock_.now();
  const DeviceSnapshot device = node_->device_snapshot(index, now);
  return device.idle_power_w * to_seconds(now.time_since_epoch()) +
         (device.max_power_w - device.idle_power_w) * to_seconds(device.engines[0].busy);
}

}  // namespace gpemu::device
