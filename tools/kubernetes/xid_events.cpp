// SPDX-License-Identifier: Apache-2.0
#include "kubernetes/xid_events.hpp"

#include <chrono>
#include <cstddef>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "gpemu/device/fault_table.hpp"
#include "gpemu/sim/clock.hpp"

#include "kubernetes/pod_facts.hpp"

namespace gpemu::tools {

Result<void> XidEvents::look(const device::Node& machine) {
  const TimePoint now = machine.clock().now();
  told_.resize(static_cast<std::size_t>(machine.device_count()), TimePoint::min());
  for (int gpu = 0; gpu < machine.device_count(); ++gpu) {
    TimePoint& told = told_[static_cast<std::size_t>(gpu)];
    for (const device::DeviceXid& xid : machine.faults().xids(gpu, now)) {
      if (xid.time <= told) continue;
      GPEMU_TRY(tell(gpu, machine.device_snapshot(gpu, now).uuid, xid.number));
      told = xid.time;
    }
  }
  return {};
}

Result<void> XidEvents::tell(int gpu, const std::string& uuid, int xid) {
  const double now_s =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  const std::string time = api_time(now_s);
  // A kubelet's events of its node are in this namespace, and have its name in place of a UID.
  const auto made =
      server_.create("/api/v1/namespaces/default/events",
                     {{"apiVersion", "v1"},
                      {"kind", "Event"},
                      {"metadata", {{"generateName", node_ + "."}}},
                      {"involvedObject",
                       {{"apiVersion", "v1"}, {"kind", "Node"}, {"name", node_}, {"uid", node_}}},
                      {"reason", "GpuXid"},
                      {"message", fmt::format("GPU {} ({}): Xid {}", gpu, uuid, xid)},
                      {"type", "Warning"},
                      {"firstTimestamp", time},
                      {"lastTimestamp", time},
                      {"count", 1},
                      {"source", {{"component", "gpemu"}, {"host", node_}}}});
  if (!made) return std::unexpected(made.error());
  return {};
}

}  // namespace gpemu::tools
