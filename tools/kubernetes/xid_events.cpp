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
namespace {

constexpr std::chrono::seconds kRetryTime{30};

}  // namespace

Result<void> XidEvents::look(const device::Node& machine) {
  const auto real_now = std::chrono::steady_clock::now();
  if (real_now < next_) return {};
  const TimePoint now = machine.clock().now();
  told_.resize(static_cast<std::size_t>(machine.device_count()));
  for (int gpu = 0; gpu < machine.device_count(); ++gpu) {
    std::size_t& told = told_[static_cast<std::size_t>(gpu)];
    const std::vector<device::DeviceXid> xids = machine.faults().xids(gpu, now);
    for (; told < xids.size(); ++told) {
      const auto done = tell(gpu, machine.device_snapshot(gpu, now).uuid, xids[told].number);
      // Its caller has more to do than to wait for an API server.
      if (!done) next_ = std::chrono::steady_clock::now() + kRetryTime;
      if (!done) return done;
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
