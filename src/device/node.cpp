// SPDX-License-Identifier: Apache-2.0
#include "gpemu/device/node.hpp"

#include <algorithm>
#include <cstdlib>

#include "robust_lock.hpp"
#include "segment.hpp"

namespace gpemu::device {
namespace {

bool is_valid_name(std::string_view name) {
  constexpr std::string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  return !name.empty() && name.size() < layout::kNameBytes && name.front() != '.' &&
         name.find_first_not_of(kAllowed) == std::string_view::npos;
}

Result<void> check_name(std::string_view name) {
  if (is_valid_name(name)) return {};
  return fail(ErrorCode::kInvalidArgument,
              "'{}' is no node name: use 1 to {} letters, digits, '.', '_' and '-', not starting "
              "with '.'",
              name, layout::kNameBytes - 1);
}

Result<void> check_config(const NodeConfig& config) {
  GPEMU_TRY(check_name(config.name));
  if (config.devices.empty() || config.devices.size() > layout::kMaxDevices) {
    return fail(ErrorCode::kInvalidArgument, "a node has 1 to {} devices, not {}",
                layout::kMaxDevices, config.devices.size());
  }
  for (const DeviceConfig& device : config.devices) {
    if (device.memory_bytes == 0 || device.gpu.empty() || device.gpu.size() >= layout::kNameBytes) {
      return fail(ErrorCode::kInvalidArgument,
                  "a device of node '{}' has no memory, or no GPU name of up to {} characters",
                  config.name, layout::kNameBytes - 1);
    }
  }
  return {};
}

/// Returns how much of the work that was ever queued on an engine is done, given when the last of
/// it ends.
Duration work_done(const layout::EngineRecord& engine, std::int64_t busy_ns, std::int64_t tail_ns,
                   TimePoint now) {
  const std::int64_t queued = layout::work_between(engine, now.time_since_epoch().count(), tail_ns);
  return Duration(std::max(busy_ns - queued, std::int64_t{0}));
}

EngineSnapshot engine_snapshot(const layout::EngineRecord& engine, TimePoint now) {
  const std::int64_t tail_ns = engine.tail_ns.load();
  return {.busy = work_done(engine, engine.busy_ns.load(), tail_ns, now),
          .operations = engine.operations.load(),
          .bytes = engine.bytes.load(),
          .idle_from = TimePoint(Duration(tail_ns))};
}

}  // namespace

std::filesystem::path Node::default_directory() {
  const char* directory = std::getenv("GPEMU_NODE_DIR");
  return directory != nullptr && *directory != '\0' ? directory : "/dev/shm/gpemu";
}

Node::Node(std::unique_ptr<Segment> segment) : segment_(std::move(segment)) {}
Node::~Node() = default;

Result<std::shared_ptr<Node>> Node::create(const NodeConfig& config,
                                           const std::filesystem::path& directory) {
  GPEMU_TRY(check_config(config));
  GPEMU_ASSIGN(auto segment, Segment::create_file(config, directory));
  GPEMU_TRY(segment->register_process());
  return std::shared_ptr<Node>(new Node(std::move(segment)));
}

Result<std::shared_ptr<Node>> Node::create_private(const NodeConfig& config) {
  GPEMU_TRY(check_config(config));
  GPEMU_ASSIGN(auto segment, Segment::create_anonymous(config));
  GPEMU_TRY(segment->register_process());
  return std::shared_ptr<Node>(new Node(std::move(segment)));
}

Result<std::shared_ptr<Node>> Node::open(std::string_view name,
                                         const std::filesystem::path& directory) {
  GPEMU_TRY(check_name(name));
  GPEMU_ASSIGN(auto segment, Segment::map_file(directory / name));
  GPEMU_TRY(segment->register_process());
  return std::shared_ptr<Node>(new Node(std::move(segment)));
}

Result<void> Node::remove(std::string_view name, bool force,
                          const std::filesystem::path& directory) {
  GPEMU_TRY(check_name(name));
  GPEMU_ASSIGN(const auto segment, Segment::map_any(directory / name));
  return segment->unlink(force);
}

Result<std::shared_ptr<Node>> Node::open_default(const std::filesystem::path& directory) {
  if (const char* name = std::getenv("GPEMU_NODE"); name != nullptr && *name != '\0') {
    return open(name, directory);
  }
  GPEMU_ASSIGN(const auto names, list(directory));
  if (names.size() == 1) return open(names[0], directory);
  if (names.empty()) {
    return fail(ErrorCode::kNotFound,
                "there is no node in {}: start a program with `gpemu run --gpu NAME -- PROGRAM`, "
                "or create a node with `gpemu node create`",
                directory.string());
  }
  return fail(ErrorCode::kInvalidArgument,
              "there are {} nodes: name one with GPEMU_NODE or, of `gpemu run`, --node "
              "(`gpemu node list` shows them)",
              names.size());
}

Result<std::vector<std::string>> Node::list(const std::filesystem::path& directory) {
  return Segment::sweep(directory);
}

const std::string& Node::name() const {
  return segment_->name();
}

int Node::device_count() const {
  return static_cast<int>(segment_->devices().size());
}

SharingPolicy Node::policy() const {
  return segment_->header().policy;
}

bool Node::temporary() const {
  return segment_->header().temporary;
}

bool Node::used_by_others() const {
  return segment_->used_by_others();
}

DeviceSnapshot Node::device_snapshot(int index, TimePoint now) const {
  GPEMU_CHECK(index >= 0 && index < device_count(), "device index out of range");
  const layout::DeviceRecord& device = segment_->devices()[static_cast<std::size_t>(index)];
  DeviceSnapshot snapshot{.index = index,
                          .gpu = device.gpu,
                          .uuid = device.uuid,
                          .pci_bus_id = device.pci_bus_id,
                          .memory_total = device.memory_bytes,
                          .memory_used = device.memory_used.load(),
                          .max_power_w = device.max_power_w,
                          .idle_power_w = device.idle_power_w,
                          .facts = device.facts,
                          .engines = {},
                          .processes = {}};
  for (std::size_t i = 0; i < kEngineCount; ++i) {
    snapshot.engines[i] = engine_snapshot(device.engines[i], now);
  }
  const RobustLock lock(segment_->header().registry_mutex, [] {});
  for (std::size_t slot = 0; slot < segment_->processes().size(); ++slot) {
    const layout::ProcessRecord& process = segment_->processes()[slot];
    const layout::HoldingRecord& holding = segment_->holding(slot, index);
    if (!process.live || holding.contexts == 0) continue;
    ProcessSnapshot& shown = snapshot.processes.emplace_back();
    shown.pid = process.pid;
    shown.name = process.name;
    shown.memory_held = holding.memory.load();
    for (std::size_t i = 0; i < kEngineCount; ++i) {
      shown.busy[i] = work_done(device.engines[i], holding.engine_busy_ns[i].load(),
                                holding.engine_tail_ns[i].load(), now);
    }
  }
  return snapshot;
}

int Node::recover_dead_processes() {
  return segment_->recover();
}

}  // namespace gpemu::device
