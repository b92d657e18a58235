// SPDX-License-Identifier: Apache-2.0
#include "smi/smi_watch.hpp"

#include <algorithm>
#include <utility>

#include "gpemu/base/log.hpp"
#include "gpemu/device/mig_layout.hpp"
#include "gpemu/device/node_view.hpp"

namespace gpemu::tools {

Result<std::vector<SmiDevice>> SmiWatch::sample() {
  GPEMU_TRY(follow());
  std::vector<SmiDevice> devices;
  for (const auto& [name, monitor] : monitors_) {
    const device::NodeView& node = monitor->node();
    for (int i = 0; i < node.device_count(); ++i) {
      if (options_.device >= 0 && options_.device != i) continue;
      auto device = sample_one(*monitor, i);
      if (!device && monitors_.size() == 1) return std::unexpected(std::move(device).error());
      if (!device) break;  // Damaged since it was opened; the others are shown.
      devices.push_back(*std::move(device));
    }
  }
  if (options_.device >= 0 && devices.empty() && !monitors_.empty()) {
    return fail(ErrorCode::kNotFound, "there is no device {}; `gpemu smi -L` lists them",
                options_.device);
  }
  return devices;
}

Result<SmiDevice> SmiWatch::sample_one(device::Monitor& monitor, int index) const {
  const device::NodeView& node = monitor.node();
  SmiDevice device{.node = node.name(), .divided = false, .now = {}, .load = {}, .mig = {}};
  // The load comes first, so that the snapshot is from the end of its period.
  GPEMU_ASSIGN(device.load, monitor.load(index));
  GPEMU_ASSIGN(device.now, monitor.snapshot(index));
  device.divided = device.now.mig.divided;
  if (!device.divided || !options_.mig_profiles) return device;
  auto found = mig_devices(node, device.now);
  if (found) {
    device.mig = *std::move(found);
  } else {
    log(LogLevel::kWarning, "the MIG devices of GPU {} are not shown: {}", index,
        found.error().message);
  }
  return device;
}

Result<std::vector<SmiMigDevice>> SmiWatch::mig_devices(const device::NodeView& node,
                                                        const device::DeviceSnapshot& now) const {
  GPEMU_ASSIGN(const std::vector<profile::MigProfile> profiles, options_.mig_profiles(now.gpu));
  GPEMU_ASSIGN(const device::MigLayout layout, node.mig_layout(now.index, profiles));
  std::vector<SmiMigDevice> devices;
  for (device::MigDevice& device : layout.devices(now.index, now.uuid)) {
    SmiMigDevice& shown = devices.emplace_back();
    GPEMU_ASSIGN(shown.memory_used, node.mig_memory_used(now.index, device.memory_place));
    shown.memory_used = std::min(shown.memory_used, device.memory_bytes);
    shown.profile = *layout.profile(device.profile);
    shown.device = std::move(device);
  }
  return devices;
}

Result<std::vector<std::string>> SmiWatch::node_names() const {
  if (!options_.node.empty()) return std::vector{options_.node};
  GPEMU_ASSIGN(const std::vector<device::NodeEntry> nodes, device::list_nodes(options_.folder));
  std::vector<std::string> names;
  for (const device::NodeEntry& node : nodes) {
    if (!node.problem) names.push_back(node.name);
  }
  return names;
}

Result<void> SmiWatch::follow() {
  // A run's node ends with the run, even while it is watched.
  std::erase_if(monitors_, [](const auto& entry) { return entry.second->node().over(); });
  GPEMU_ASSIGN(const std::vector<std::string> names, node_names());
  Monitors kept;
  for (const std::string& name : names) {
    const auto known = std::ranges::find(monitors_, name, &Monitors::value_type::first);
    if (known != monitors_.end()) {
      kept.push_back(std::move(*known));
      continue;
    }
    auto monitor = watch(name);
    // A node that was removed since it was listed is left out.
    if (!monitor && names.size() == 1) return std::unexpected(std::move(monitor).error());
    if (monitor) kept.emplace_back(name, *std::move(monitor));
  }
  monitors_ = std::move(kept);
  return {};
}

Result<std::unique_ptr<device::Monitor>> SmiWatch::watch(const std::string& name) const {
  GPEMU_ASSIGN(auto node, device::NodeView::open(name, options_.folder));
  sim::Clock& clock = options_.clock != nullptr ? *options_.clock : node->clock();
  return device::Monitor::create(std::move(node), clock, options_.period);
}

}  // namespace gpemu::tools
