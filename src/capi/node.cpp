// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "gpemu/base/units.hpp"
#include "gpemu/device/device_config.hpp"
#include "gpemu/device/process_priority.hpp"
#include "gpemu/gpemu.h"
#include "gpemu/profile/database.hpp"
#include "gpemu/profile/topology_spec.hpp"

#include "guard.hpp"
#include "handles.hpp"

namespace gpemu {
namespace {

/// Fields of gpemu_node_config from here on may be absent; they are zero then.
constexpr std::size_t kLeastConfigBytes = offsetof(gpemu_node_config, clock);

/// A node whose time is skipped, or whose host is slower, has its own clock.
std::shared_ptr<sim::Clock> clock_of(const std::shared_ptr<device::Node>& node) {
  const sim::ClockPage& page = node->clock().page();
  if (page.skipping == 0 && page.pace.is_same()) return real_clock();
  return {node, &node->clock()};
}

Result<gpemu_node> create_node(const gpemu_node_config& config) {
  GPEMU_TRY(check_enum("gpemu_node_create: clock", config.clock,
                       {GPEMU_CLOCK_REAL, GPEMU_CLOCK_VIRTUAL}));
  const bool is_virtual = config.clock == GPEMU_CLOCK_VIRTUAL;
  if (is_virtual && config.name != nullptr) {
    return fail(ErrorCode::kInvalidArgument, "only a private node may have a virtual clock");
  }
  if (config.device_count < 1) {
    return fail(ErrorCode::kInvalidArgument, "a node needs at least one device, not {}",
                config.device_count);
  }
  GPEMU_ASSIGN(const profile::Database database,
               profile::Database::open(profile::Database::default_paths()));
  GPEMU_ASSIGN(const profile::GpuSpec spec, database.gpu(config.gpu));
  device::NodeConfig node_config{
      .name = config.name != nullptr ? config.name : "private",
      .devices =
          std::vector(static_cast<std::size_t>(config.device_count), device::device_config(spec)),
      .temporary = true};
  if (config.mig != 0 && (config.mig != 1 || spec.mig_profiles.empty())) {
    return fail(ErrorCode::kInvalidArgument,
                "mig is 0 or, for a GPU that MIG can divide, 1; it is {}, and the GPU is a {}",
                config.mig, spec.name);
  }
  if (config.mig != 0) node_config.policy = device::SharingPolicy::kMig;
  if (config.topology != nullptr) {
    GPEMU_ASSIGN(profile::TopologySpec machine, profile::load_topology_spec(config.topology));
    node_config.topology = std::move(machine.toml);
  }
  gpemu_node node;
  if (is_virtual) {
    node.clock = std::make_shared<sim::VirtualClock>();
  } else {
    node.clock = real_clock();
  }
  GPEMU_ASSIGN(node.node, config.name != nullptr ? device::Node::create(node_config)
                                                 : device::Node::create_private(node_config));
  return node;
}

}  // namespace
}  // namespace gpemu

using gpemu::ErrorCode;
using gpemu::fail;
using gpemu::guard;
using gpemu::require;
using gpemu::Result;

gpemu_status gpemu_node_create(const gpemu_node_config* config, gpemu_node** node) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_node_create", config, node));
    if (config->struct_size < gpemu::kLeastConfigBytes ||
        config->struct_size > sizeof(gpemu_node_config)) {
      return fail(ErrorCode::kInvalidArgument,
                  "gpemu_node_create: set struct_size to sizeof the structure, {} to {}, not {}",
                  gpemu::kLeastConfigBytes, sizeof(gpemu_node_config), config->struct_size);
    }
    gpemu_node_config known{};
    std::memcpy(&known, config, config->struct_size);
    GPEMU_TRY(require("gpemu_node_create: gpu", known.gpu));
    GPEMU_ASSIGN(gpemu_node created, gpemu::create_node(known));
    *node = new gpemu_node(std::move(created));
    return {};
  });
}

gpemu_status gpemu_node_open(const char* name, gpemu_node** node) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_node_open", name, node));
    GPEMU_ASSIGN(const auto priority, gpemu::device::process_priority(std::getenv));
    GPEMU_ASSIGN(auto opened, gpemu::device::Node::open(name));
    opened->set_priority(priority);
    GPEMU_ASSIGN(auto limits, gpemu::device::MemoryLimits::read(std::getenv));
    GPEMU_ASSIGN(auto shares, gpemu::device::ComputeShares::read(std::getenv));
    *node = new gpemu_node{.clock = gpemu::clock_of(opened),
                           .node = std::move(opened),
                           .limits = std::move(limits),
                           .shares = std::move(shares)};
    return {};
  });
}

void gpemu_node_close(gpemu_node* node) {
  delete node;
}

gpemu_status gpemu_node_device_count(const gpemu_node* node, int32_t* count) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_node_device_count", node, count));
    *count = node->node->device_count();
    return {};
  });
}

gpemu_status gpemu_node_now(const gpemu_node* node, int64_t* now_ns) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_node_now", node, now_ns));
    *now_ns = gpemu::to_ns(node->clock->now());
    return {};
  });
}

gpemu_status gpemu_node_wait_until(gpemu_node* node, int64_t time_ns) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_node_wait_until", node));
    node->clock->wait_until(gpemu::at_ns(time_ns));
    return {};
  });
}

gpemu_status gpemu_host_now(int64_t* now_ns) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_host_now", now_ns));
    *now_ns = gpemu::to_ns(gpemu::sim::RealClock().now());
    return {};
  });
}

gpemu_status gpemu_host_wait_until(int64_t time_ns) {
  return guard([=]() -> Result<void> {
    gpemu::sim::RealClock().wait_until(gpemu::at_ns(time_ns));
    return {};
  });
}
