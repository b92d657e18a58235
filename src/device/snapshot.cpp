// SPDX-License-Identifier: Apache-2.0
#include "snapshot.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "gpemu/base/saturate.hpp"

#include "lock_file.hpp"
#include "process_id.hpp"

namespace gpemu::device {
namespace {

std::uint64_t saturating_sum(std::uint64_t a, std::uint64_t b) {
  std::uint64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? ~std::uint64_t{0} : sum;
}

/// Returns how much of the work that was ever queued on an engine is done, given the end of the
/// last work.
Duration work_done(const layout::EngineRecord& engine, std::int64_t busy_ns, std::int64_t tail_ns,
                   std::int64_t now_ns) {
  const std::int64_t queued = layout::work_between(engine, now_ns, tail_ns);
  return Duration(
      std::max(saturating_subtract(std::max(busy_ns, std::int64_t{0}), queued), std::int64_t{0}));
}

constexpr auto kSliced = static_cast<std::size_t>(Engine::kCompute);

/// Returns how much of the work that was ever queued is done, given what is still wanted.
Duration work_left_out(std::int64_t busy_ns, Duration wanted) {
  return Duration(std::max(saturating_subtract(busy_ns, wanted.count()), std::int64_t{0}));
}

}  // namespace

Slots slots_alive(int descriptor, std::ptrdiff_t own_slot) {
  Slots alive;
  if (own_slot >= 0) alive.set(static_cast<std::size_t>(own_slot));
  for_each_lock_of_others(descriptor, layout::kAliveLocks, layout::kProcessCapacity,
                          [&alive](std::int64_t first, std::int64_t count) {
                            for (std::int64_t i = 0; i < count; ++i) {
                              alive.set(static_cast<std::size_t>(first - layout::kAliveLocks + i));
                            }
                          });
  return alive;
}

ComputeMode compute_mode_of(const layout::SettingsRecord& settings) {
  const std::uint32_t mode = settings.compute_mode;
  for (const ComputeMode known : {ComputeMode::kProhibited, ComputeMode::kExclusiveProcess}) {
    if (mode == static_cast<std::uint32_t>(known)) return known;
  }
  return ComputeMode::kDefault;
}

TimeSliceLength time_slice_of(const layout::SettingsRecord& settings) {
  const std::uint32_t length = settings.time_slice;
  return length > static_cast<std::uint32_t>(TimeSliceLength::kLong)
             ? TimeSliceLength::kDefault
             : static_cast<TimeSliceLength>(length);
}

MigMode mig_mode_of(const layout::SettingsRecord& settings, SharingPolicy policy) {
  if (policy != SharingPolicy::kMig) return {};
  const std::uint32_t mode = settings.mig_mode;
  return {.divided = (mode & 1U) == 0, .pending = (mode & 2U) == 0};
}

std::int64_t needed_until(std::span<const layout::HoldingRecord> holdings, const Slots& slots,
                          std::size_t engine, std::int64_t now_ns, std::int64_t latest_ns) {
  std::int64_t needed_ns = now_ns;
  for (std::size_t slot = 0; slot < holdings.size(); ++slot) {
    if (!slots[slot]) continue;
    const std::int64_t tail_ns = holdings[slot].engines[engine].tail_ns;
    if (tail_ns <= latest_ns) needed_ns = std::max(needed_ns, tail_ns);
  }
  return needed_ns;
}

std::int64_t work_of_dead(const DeviceTables& device, const Slots& alive, std::size_t engine,
                          std::int64_t begin_ns, std::int64_t end_ns) {
  std::int64_t queued = 0;
  for (std::size_t slot = 0; slot < device.holdings.size(); ++slot) {
    if (alive[slot] || device.processes[slot].used.load() == 0) continue;
    queued = saturating_add(
        queued,
        std::max(device.holdings[slot].engines[engine].queued.busy_ns.load(), std::int64_t{0}));
  }
  return std::min(layout::work_between(device.engines[engine], begin_ns, end_ns), queued);
}

Bytes memory_held(std::span<const layout::HoldingRecord> holdings, const Slots& slots) {
  Bytes held = 0;
  if (slots.none()) return held;
  for (std::size_t slot = 0; slot < holdings.size(); ++slot) {
    if (slots[slot]) held = saturating_sum(held, holdings[slot].memory.load());
  }
  return held;
}

ProcessSnapshot process_of(const layout::ProcessRecord& record) {
  ProcessSnapshot process;
  process.pid = record.pid.load();
  const std::uint64_t pid_namespace = record.pid_namespace.load();
  if (pid_namespace != own_pid_namespace()) process.foreign_namespace = pid_namespace;
  process.name = printable({record.name, ::strnlen(record.name, sizeof record.name)});
  return process;
}

void add_settings(DeviceSnapshot& snapshot, const layout::SettingsRecord& settings,
                  SharingPolicy policy) {
  snapshot.compute_mode = compute_mode_of(settings);
  snapshot.time_slice = time_slice_of(settings);
  snapshot.mig = mig_mode_of(settings, policy);
}

void add_links(DeviceSnapshot& snapshot, const layout::LinkRecord& links) {
  const auto& [compute, from_host, to_host] = snapshot.engines;
  snapshot.pcie = {.sent = saturating_sum(to_host.bytes, links.pcie.sent),
                   .received = saturating_sum(from_host.bytes, links.pcie.received)};
  for (std::size_t i = 0; i < kMostNvlinks; ++i) {
    snapshot.nvlinks.at(i) = {.sent = links.nvlinks[i].sent, .received = links.nvlinks[i].received};
  }
}

std::string describe(const ProcessSnapshot& process) {
  if (process.foreign_namespace == 0) {
    return fmt::format("process {} ({})", process.pid, process.name);
  }
  return fmt::format("process {} of pid namespace {} ({})", process.pid, process.foreign_namespace,
                     process.name);
}

namespace {

int tenant_of(const layout::HoldingRecord& holding) {
  return static_cast<int>(std::min<std::uint32_t>(holding.tenant.load(), kMostTenants));
}

/// Returns the work that each engine has done for the holder of a slot.
std::array<Duration, kEngineCount> busy_of(const DeviceTables& device, std::size_t slot,
                                           std::int64_t now_ns) {
  const layout::HoldingRecord& holding = device.holdings[slot];
  std::array<Duration, kEngineCount> busy{};
  for (std::size_t i = 0; i < kEngineCount; ++i) {
    const layout::HoldingRecord::Use& use = holding.engines[i];
    busy[i] = work_done(device.engines[i], use.queued.busy_ns.load(), use.tail_ns.load(), now_ns);
  }
  if (device.slices == nullptr) return busy;
  const std::size_t sharer = device.slices->find(device.processes[slot].identity);
  if (sharer == TimeSlices::kNobody) return busy;
  busy[kSliced] = work_left_out(holding.engines[kSliced].queued.busy_ns.load(),
                                device.slices->sharers[sharer].wanted());
  return busy;
}

void add_tenants(DeviceSnapshot& snapshot, const DeviceTables& device, const Slots& alive,
                 std::int64_t now_ns) {
  std::array<TenantSnapshot, kMostTenants + 1> tenants{};
  for (std::size_t i = 0; i < kEngineCount; ++i) {
    for (std::size_t tenant = 1; tenant <= kMostTenants; ++tenant) {
      const std::int64_t ended_ns = device.engines[i].ended_ns_of[tenant - 1];
      tenants[tenant].busy[i] = Duration(std::max(ended_ns, std::int64_t{0}));
    }
  }
  for (std::size_t slot = 0; slot < device.processes.size(); ++slot) {
    const layout::HoldingRecord& holding = device.holdings[slot];
    const int tenant = tenant_of(holding);
    if (tenant == 0) continue;
    TenantSnapshot& its = tenants[static_cast<std::size_t>(tenant)];
    const auto busy = busy_of(device, slot, now_ns);
    for (std::size_t i = 0; i < kEngineCount; ++i) {
      its.busy[i] = Duration(saturating_add(its.busy[i].count(), busy[i].count()));
    }
    if (alive[slot]) its.memory_held = saturating_sum(its.memory_held, holding.memory.load());
  }
  for (std::size_t tenant = 1; tenant <= kMostTenants; ++tenant) {
    TenantSnapshot& its = tenants[tenant];
    its.tenant = static_cast<int>(tenant);
    its.memory_held = std::min(its.memory_held, snapshot.memory_total);
    const bool is_known = its.memory_held > 0 || its.busy != decltype(its.busy){};
    if (is_known) snapshot.tenants.push_back(its);
  }
}

}  // namespace

DeviceSnapshot make_snapshot(int index, const DeviceFacts& facts, const DeviceTables& device,
                             const Slots& alive, TimePoint now) {
  const std::int64_t now_ns = to_ns(now);
  DeviceSnapshot snapshot{
      .index = index,
      .gpu = facts.gpu,
      .uuid = facts.uuid,
      .pci_bus_id = facts.pci_bus_id,
      .memory_total = facts.memory_bytes,
      .memory_used = std::min(memory_held(device.holdings, alive), facts.memory_bytes),
      .max_power_w = facts.max_power_w,
      .idle_power_w = facts.idle_power_w,
      .facts = facts.facts,
      .engines = {},
      .processes = {}};
  for (std::size_t i = 0; i < kEngineCount; ++i) {
    const layout::EngineRecord& engine = device.engines[i];
    const std::int64_t tail_ns = engine.tail_ns.load();
    const std::int64_t needed_ns =
        needed_until(device.holdings, alive, i, now_ns, std::numeric_limits<std::int64_t>::max());
    const std::int64_t dropped = work_of_dead(device, alive, i, needed_ns, tail_ns);
    const std::int64_t kept_ns = std::clamp(tail_ns, std::int64_t{0}, needed_ns);
    EngineSnapshot& shown = snapshot.engines[i];
    std::int64_t busy_ns = engine.ended.busy_ns;
    shown.operations = engine.ended.operations;
    shown.bytes = engine.ended.bytes;
    for (const layout::HoldingRecord& holding : device.holdings) {
      const layout::CountRecord& queued = holding.engines[i].queued;
      busy_ns = saturating_add(busy_ns, queued.busy_ns);
      shown.operations += queued.operations;
      shown.bytes += queued.bytes;
    }
    shown.busy = work_done(engine, saturating_subtract(busy_ns, dropped), kept_ns, now_ns);
    shown.idle_from = at_ns(kept_ns);
    if (device.slices == nullptr || i != kSliced) continue;
    Duration wanted{};
    for (const Sharer& sharer : device.slices->sharers) {
      wanted = Duration(saturating_add(wanted.count(), sharer.wanted().count()));
    }
    shown.busy = work_left_out(busy_ns, wanted);
    shown.idle_from = saturating_add(now, wanted);
  }
  add_tenants(snapshot, device, alive, now_ns);
  for (std::size_t slot = 0; slot < device.processes.size(); ++slot) {
    const layout::HoldingRecord& holding = device.holdings[slot];
    if (!alive[slot] || holding.contexts.load() == 0) continue;
    ProcessSnapshot& shown = snapshot.processes.emplace_back(process_of(device.processes[slot]));
    shown.memory_held = std::min(holding.memory.load(), facts.memory_bytes);
    shown.is_mps_client = holding.is_mps_client.load() != 0;
    shown.tenant = tenant_of(holding);
    shown.busy = busy_of(device, slot, now_ns);
  }
  return snapshot;
}

void add_mig_places(DeviceSnapshot& snapshot, std::span<const DeviceTables> places,
                    const std::array<double, layout::kMigPlaces>& weights, const DeviceFacts& facts,
                    const Slots& alive, TimePoint now) {
  Bytes used = snapshot.memory_used;
  for (std::size_t k = 0; k < places.size(); ++k) {
    const DeviceSnapshot part = make_snapshot(snapshot.index, facts, places[k], alive, now);
    used = saturating_sum(used, part.memory_used);
    for (std::size_t i = 0; i < kEngineCount; ++i) {
      EngineSnapshot& shown = snapshot.engines[i];
      shown.busy += Duration(std::llround(to_seconds(part.engines[i].busy) * weights.at(k) * 1e9));
      shown.operations += part.engines[i].operations;
      shown.bytes += part.engines[i].bytes;
      shown.idle_from = std::max(shown.idle_from, part.engines[i].idle_from);
    }
  }
  snapshot.memory_used = std::min(used, facts.memory_bytes);
  for (std::size_t slot = 0; slot < layout::kProcessCapacity; ++slot) {
    std::size_t in = places.size();
    Bytes held = 0;
    for (std::size_t k = 0; k < places.size(); ++k) {
      held = saturating_sum(held, places[k].holdings[slot].memory.load());
      if (places[k].holdings[slot].contexts.load() != 0) in = k;
    }
    if (!alive[slot] || in == places.size()) continue;
    const DeviceTables& place = places[in];
    ProcessSnapshot& shown = snapshot.processes.emplace_back(process_of(place.processes[slot]));
    shown.memory_held = std::min(held, facts.memory_bytes);
    shown.mig_place = static_cast<int>(in);
    for (std::size_t i = 0; i < kEngineCount; ++i) {
      const layout::HoldingRecord::Use& use = place.holdings[slot].engines[i];
      const Duration busy =
          work_done(place.engines[i], use.queued.busy_ns.load(), use.tail_ns.load(), to_ns(now));
      shown.busy[i] = Duration(std::llround(to_seconds(busy) * weights.at(in) * 1e9));
    }
  }
}

}  // namespace gpemu::device
