// SPDX-License-Identifier: Apache-2.0
#include "smi/smi_watch.hpp"

#include <algorithm>

#include "gpemu/device/node_view.hpp"

namespace gpemu::tools {

Result<std::vector<SmiDevice>> SmiWatch::sample() {
  GPEMU_TRY(follow());
  std::vector<SmiDevice> devices;
  for (const auto& [name, monitor] : monitors_) {
    const device::NodeView& node = monitor->node();
    for (int i = 0; i < node.device_count(); ++i) {
      if (options_.device >= 0 && options_.device != i) continue;
      // The load comes first, so that the snapshot is from the end of its period.
      auto load = monitor->load(i);
      auto now = load ? monitor->snapshot(i) : std::unexpected(load.error());
      if (!now && monitors_.size() == 1) return std::unexpected(std::move(now).error());
      if (!now) break;  // Damaged since it was opened; the others are shown.
      devices.push_back({.node = node.name(),
                         .exclusive = node.policy() == device::SharingPolicy::kExclusive,
                         .divided = node.policy() == device::SharingPolicy::kMig,
                         .now = *std::move(now),
                         .load = *std::move(load)});
    }
  }
  if (options_.device >= 0 && devices.empty() && !monitors_.empty()) {
    return fail(ErrorCode::kNotFound, "there is no device {}; `gpemu smi -L` lists them",
                options_.device);
  }
  return devices;
}

Result<std::vector<std::string>> SmiWatch::node_names() const {
  if (!options_.node.empty()) return std::vector{options_.node};
  GPEMU_ASSIGN(const std::vector<device::NodeEntry> nodes, device::Node::list(options_.folder));
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
