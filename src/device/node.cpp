// SPDX-License-Identifier: Apache-2.0
#include "gpemu/device/node.hpp"

#include <algorithm>
#include <cstdint>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "gpemu/base/saturate.hpp"

#include "device_sharing.hpp"
#include "launch_policy.hpp"
#include "lock_file.hpp"
#include "schedule.hpp"
#include "segment.hpp"
#include "settler.hpp"
#include "sliced_sharing.hpp"

namespace gpemu::device {
namespace {

/// Attempts for one node. A host with more containers than this has other problems.
constexpr int kMostNames = 1000;

Result<void> check_config(const NodeConfig& config) {
  if (config.devices.empty() || config.devices.size() > layout::kMaxDevices) {
    return fail(ErrorCode::kInvalidArgument, "a node has 1 to {} devices, not {}",
                layout::kMaxDevices, config.devices.size());
  }
  for (const DeviceConfig& device : config.devices) {
    if (device.memory_bytes == 0 || !is_gpu_name(device.gpu) ||
        device.gpu.size() >= layout::kNameBytes) {
      return fail(ErrorCode::kInvalidArgument,
                  "a device of node '{}' has no memory, or no GPU name of up to {} characters "
                  "without '/' and \".toml\"",
                  config.name, layout::kNameBytes - 1);
    }
  }
  const auto ms = [](Duration time) {
    return std::chrono::duration<double, std::milli>(time).count();
  };
  const TimeSliceRules slices = config.slices.on({});
  if (slices.quantum < kShortestQuantum || slices.quantum > kLongestQuantum ||
      slices.context_switch < Duration() || slices.context_switch > kLongestQuantum) {
    return fail(ErrorCode::kInvalidArgument,
                "a time slice takes {} to {} ms and a context switch at most {} ms, not {} and {}",
                ms(kShortestQuantum), ms(kLongestQuantum), ms(kLongestQuantum), ms(slices.quantum),
                ms(slices.context_switch));
  }
  if (config.faults.size() > layout::kMaxFaultsBytes) {
    return fail(ErrorCode::kInvalidArgument, "the text of faults has at most {} bytes, not {}",
                layout::kMaxFaultsBytes, config.faults.size());
  }
  if (!config.faults.empty()) {
    GPEMU_TRY(profile::parse_fault_plan(config.faults, "faults", config.devices.size()));
  }
  if (config.topology.empty()) return {};
  if (config.topology.size() > layout::kMaxTopologyBytes) {
    return fail(ErrorCode::kInvalidArgument, "a topology has at most {} bytes, not {}",
                layout::kMaxTopologyBytes, config.topology.size());
  }
  std::vector<DeviceFacts> devices;
  for (const DeviceConfig& device : config.devices) {
    DeviceFacts& facts = devices.emplace_back();
    facts.gpu = device.gpu;
    facts.facts = device.facts;
  }
  GPEMU_TRY(read_topology(config.topology, "topology", devices));
  return {};
}

/// Errors: kInvalidArgument if it is not the name of a node of this user.
Result<void> check_own_name(std::string_view name) {
  GPEMU_ASSIGN(const NodePath path, resolve(name, {}));
  if (path.file == name) return {};
  return fail(ErrorCode::kInvalidArgument,
              "'{}' names a user: you can only create nodes of your own", printable(name));
}

SlicePeers slice_peers_of(Segment& segment, int device) {
  return {.tail_of =
              [&segment, device](std::uint64_t identity) {
                const auto compute = static_cast<std::size_t>(Engine::kCompute);
                return segment.holding(device, identity).engines[compute].tail_ns.load();
              },
          .ring = [&segment](std::uint64_t identity) { segment.ring(identity); },
          .pid_of = [&segment](std::uint64_t identity) { return segment.pid_here(identity); },
          .drop =
              [&segment, device](std::uint8_t tenant, Duration cost) {
                const auto compute = static_cast<std::size_t>(Engine::kCompute);
                layout::EngineRecord& engine = segment.engines(device)[compute];
                engine.ended.busy_ns -= cost.count();
                if (tenant > 0) engine.ended_ns_of[tenant - 1] -= cost.count();
              },
          .quantum =
              [&segment, device] {
                return slice_length(segment.facts().slices_of(device).quantum,
                                    segment.time_slice(device));
              },
          .queued_by =
              [&segment, device](std::uint64_t identity) {
                const auto compute = static_cast<std::size_t>(Engine::kCompute);
                const layout::HoldingRecord& its = segment.holding(device, identity);
                return Duration(std::max<std::int64_t>(its.engines[compute].queued.busy_ns, 0));
              }};
}

/// Returns the engines of a node's places, with their sharing policy.
std::vector<DeviceEngines> engines_of(Segment& segment) {
  std::vector<DeviceEngines> devices;
  for (int device = 0; std::cmp_less(device, segment.places()); ++device) {
    const std::span<layout::EngineRecord> engines = segment.engines(device);
    layout::HoldingRecord& own = segment.own_holding(device);
    auto sharing = make_sharing(
        segment.facts().policy, engines, own,
        [&segment, device](std::size_t engine, TimePoint now, std::int64_t own_tail_ns) {
          segment.trim(device, engine, now, own_tail_ns);
        });
    if (layout::has_slice_tables(segment.facts().policy)) {
      const TimeSliceRules slices = segment.facts().slices_of(device);
      sharing = std::make_unique<SlicedSharing>(
          std::move(sharing), make_launch_policy(segment.facts().policy, slices), slices,
          segment.slice_table(device), slice_peers_of(segment, device));
    }
    const int gpu = segment.facts().device_of(device);
    auto speed = segment.faults().may_disturb(gpu) ? std::make_unique<Speed>(segment.faults(), gpu)
                                                   : nullptr;
    devices.push_back({.sharing = std::move(sharing),
                       .records = engines,
                       .own = &own,
                       .speed = std::move(speed)});
  }
  return devices;
}

Peers peers_of(Segment& segment) {
  return {
      .own = &segment.process(segment.identity()),
      .process = [&segment](std::uint64_t identity) -> layout::ProcessRecord& {
        return segment.process(identity);
      },
      .can_come =
          [&segment](const layout::SeatRecord& seat) { return segment.seats().can_come(seat); }};
}

}  // namespace

void handle_forks() {
  handle_forks_of_locks();
}

Node::Node(std::unique_ptr<Segment> segment)
    : segment_(std::move(segment)),
      schedule_(std::make_unique<Schedule>(engines_of(*segment_), peers_of(*segment_))),
      bells_(*segment_, *schedule_) {}

Node::~Node() {
  if (segment_->owned_by_this_process()) return;
  // In a forked child, both belong to the parent, and the thread that holds the schedule's lock may
  // not exist.
  static_cast<void>(settler_.release());
  static_cast<void>(schedule_.release());
}

void Node::start_to_settle(sim::Clock& clock) {
  if (!clock.runs_by_itself()) return;
  std::call_once(settler_started_, [&] {
    settler_ =
        std::make_unique<Settler>(look_at(*schedule_), segment_->process(segment_->identity()),
                                  clock, [this] { bells_.answer(); });
  });
}

std::uint64_t Node::identity() const {
  return segment_->identity();
}

TimePoint Node::settle(TimePoint now) {
  const Lock lock(schedule_->mutex);
  schedule_->advance(now);
  return std::min(schedule_->next_look(now).time, schedule_->next_turn());
}

Result<std::shared_ptr<Node>> Node::create(const NodeConfig& config,
                                           const std::filesystem::path& directory) {
  GPEMU_TRY(check_own_name(config.name));
  GPEMU_TRY(check_config(config));
  GPEMU_ASSIGN(auto segment, Segment::create_file(config, directory));
  return std::shared_ptr<Node>(new Node(std::move(segment)));
}

Result<std::shared_ptr<Node>> Node::create_under_free_name(NodeConfig config,
                                                           const std::filesystem::path& directory) {
  const std::string name = config.name;
  for (int number = 2;; ++number) {
    auto node = create(config, directory);
    std::error_code ignored;
    const bool taken =
        !node && node.error().code == ErrorCode::kInvalidArgument &&
        std::filesystem::exists(std::filesystem::symlink_status(directory / config.name, ignored));
    if (!taken || number > kMostNames) return node;
    config.name = fmt::format("{}-{}", name, number);
  }
}

Result<std::shared_ptr<Node>> Node::create_private(const NodeConfig& config) {
  GPEMU_TRY(check_own_name(config.name));
  GPEMU_TRY(check_config(config));
  GPEMU_ASSIGN(auto segment, Segment::create_anonymous(config));
  return std::shared_ptr<Node>(new Node(std::move(segment)));
}

Result<std::shared_ptr<Node>> Node::open(std::string_view name,
                                         const std::filesystem::path& directory) {
  GPEMU_ASSIGN(const NodePath path, resolve(name, directory));
  GPEMU_ASSIGN(auto segment, Segment::open_file(path));
  return std::shared_ptr<Node>(new Node(std::move(segment)));
}

const std::string& Node::name() const {
  return segment_->name();
}

int Node::device_count() const {
  return static_cast<int>(segment_->facts().devices.size());
}

SharingPolicy Node::policy() const {
  return segment_->facts().policy;
}

bool Node::temporary() const {
  return segment_->facts().temporary;
}

DeviceMig Node::mig(int device) const {
  GPEMU_CHECK(device >= 0 && device < device_count(), "device index out of range");
  return {*segment_, device};
}

DeviceSettings Node::settings(int device) const {
  GPEMU_CHECK(device >= 0 && device < device_count(), "device index out of range");
  return {*segment_, device};
}

NodeFaults Node::faults() const {
  return {*segment_, *schedule_};
}

const profile::TopologySpec* Node::topology() const {
  const NodeFacts& facts = segment_->facts();
  return facts.topology ? &*facts.topology : nullptr;
}

void Node::count_traffic(int device, std::optional<int> nvlink, const LinkTraffic& bytes) const {
  layout::LinkRecord& links = segment_->links(device);
  layout::LinkRecord::Count& count =
      nvlink ? links.nvlinks[static_cast<std::size_t>(*nvlink)] : links.pcie;
  count.sent.fetch_add(bytes.sent, std::memory_order_relaxed);
  count.received.fetch_add(bytes.received, std::memory_order_relaxed);
}

sim::SharedClock& Node::clock() const {
  return segment_->clock();
}

std::pair<std::filesystem::path, std::uint64_t> Node::place_of_clock() const {
  return segment_->place_of_clock();
}

bool Node::all_others_among(const std::set<pid_t>& processes) const {
  return segment_->all_others_among(processes);
}

Duration Node::work_after(int device, Engine engine, TimePoint from, Duration most) const {
  GPEMU_CHECK(device >= 0 && device < device_count(), "device index out of range");
  const layout::EngineRecord& record = segment_->engines(device)[static_cast<std::size_t>(engine)];
  const std::int64_t begin = std::max(to_ns(from), std::int64_t{0});
  // More is damage.
  const std::int64_t latest = saturating_add(begin, layout::kLongestQueue.count());
  const std::int64_t end = std::min(record.tail_ns.load(), latest);
  return std::min(most, Duration(layout::work_between(record, begin, end)));
}

DeviceSnapshot Node::device_snapshot(int index, TimePoint now) const {
  GPEMU_CHECK(index >= 0 && index < device_count(), "device index out of range");
  return segment_->snapshot(index, now);
}

}  // namespace gpemu::device
