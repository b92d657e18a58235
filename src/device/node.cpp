// SPDX-License-Identifier: Apache-2.0
#include "gpemu/device/node.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

#include "gpemu/base/saturate.hpp"
#include "gpemu/base/variables.hpp"

#include "device_sharing.hpp"
#include "launch_policy.hpp"
#include "lock_file.hpp"
#include "mapping.hpp"
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
          .ring =
              [&segment](std::uint64_t identity) {
                layout::ProcessRecord& process = segment.process(identity);
                ++process.bell;
                sim::wake_all(process.bell);
              },
          .pid_of = [&segment](std::uint64_t identity) { return segment.pid_here(identity); },
          .drop =
              [&segment, device](Duration cost) {
                const auto compute = static_cast<std::size_t>(Engine::kCompute);
                segment.engines(device)[compute].ended.busy_ns -= cost.count();
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

std::filesystem::path Node::default_directory() {
  const char* directory = std::getenv(variable::kNodeDir);
  if (directory != nullptr && *directory != '\0') return directory;
  return user_folder(::geteuid());
}

Node::Node(std::unique_ptr<Segment> segment)
    : segment_(std::move(segment)),
      schedule_(std::make_unique<Schedule>(engines_of(*segment_), peers_of(*segment_))) {}

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
    settler_ = std::make_unique<Settler>(look_at(*schedule_),
                                         segment_->process(segment_->identity()), clock, [this] {
                                           std::function<void()> rung;
                                           {
                                             const Lock lock(rung_mutex_);
                                             rung = rung_;
                                           }
                                           if (rung) rung();
                                         });
  });
}

std::uint64_t Node::identity() const {
  return segment_->identity();
}

void Node::ring(std::uint64_t identity) {
  layout::ProcessRecord& process = segment_->process(identity);
  ++process.bell;
  sim::wake_all(process.bell);
}

void Node::ring(std::span<const std::uint64_t> identities) {
  for (const std::uint64_t identity : identities) ring(identity);
}

void Node::ring_soon(std::span<const std::uint64_t> identities) {
  if (identities.empty()) return;
  std::vector<layout::ProcessRecord*> processes;
  for (const std::uint64_t identity : identities) {
    processes.push_back(&segment_->process(identity));
  }
  Lock lock(schedule_->mutex);
  schedule_->ring_soon(processes);
  const bool rings = schedule_->take_owed_ring();
  lock.unlock();
  if (rings) schedule_->ring_settler();
}

std::uint32_t Node::times_rung(std::uint64_t identity) const {
  return segment_->process(identity).bell;
}

void Node::call_when_rung(std::function<void()> function) {
  const Lock lock(rung_mutex_);
  rung_ = std::move(function);
}

TimePoint Node::settle(TimePoint now) {
  const Lock lock(schedule_->mutex);
  schedule_->advance(now);
  return std::min(schedule_->next_look(now).time, schedule_->next_turn());
}

void Node::end_when_cut_short() {
  device::end_when_cut_short();
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

Result<void> Node::remove(std::string_view name, bool force,
                          const std::filesystem::path& directory) {
  return remove_node(name, force, directory);
}

Result<std::string> Node::default_name(std::string_view named,
                                       const std::filesystem::path& directory) {
  if (!named.empty()) return std::string(named);
  GPEMU_ASSIGN(std::vector<NodeEntry> nodes, list(directory));
  const auto damaged =
      std::erase_if(nodes, [](const NodeEntry& node) { return node.problem.has_value(); });
  if (nodes.size() == 1) return nodes.front().name;
  if (nodes.empty()) {
    return fail(ErrorCode::kNotFound,
                "there is no node in {}{}: start a program with `gpemu run --gpu NAME -- PROGRAM`, "
                "or create a node with `gpemu node create`",
                directory.string(),
                damaged == 0 ? "" : " that can be used (`gpemu node list` says why)");
  }
  return fail(ErrorCode::kInvalidArgument,
              "there are {} nodes: name one with GPEMU_NODE or, for `gpemu run`, with --node "
              "(`gpemu node list` shows them)",
              nodes.size());
}

Result<std::shared_ptr<Node>> Node::open_default(std::string_view named,
                                                 const std::filesystem::path& directory) {
  GPEMU_ASSIGN(const std::string name, default_name(named, directory));
  return open(name, directory);
}

Result<std::vector<NodeEntry>> Node::list(const std::filesystem::path& directory) {
  return list_nodes(directory);
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

const profile::TopologySpec* Node::topology() const {
  const NodeFacts& facts = segment_->facts();
  return facts.topology ? &*facts.topology : nullptr;
}

MigMode Node::mig_mode(int device) const {
  GPEMU_CHECK(device >= 0 && device < device_count(), "device index out of range");
  return segment_->mig_mode(device);
}

MigLayout Node::mig_layout(int device, std::span<const profile::MigProfile> profiles) const {
  if (!mig_mode(device).divided) return MigLayout(profiles);
  return MigLayout(profiles, segment_->mig_table(device).read().words);
}

/// Errors: kUnsupported if MIG cannot divide a device.
Result<void> Node::check_mig(int device, std::span<const profile::MigProfile> profiles) const {
  GPEMU_CHECK(device >= 0 && device < device_count(), "device index out of range");
  GPEMU_TRY(segment_->check_owner());
  if (profiles.empty()) {
    return fail(ErrorCode::kUnsupported, "device {} of node '{}', a {}, has no MIG", device, name(),
                segment_->facts(device).gpu);
  }
  if (policy() != SharingPolicy::kMig) {
    return fail(ErrorCode::kUnsupported,
                "node '{}' does not divide its GPUs: make one with `gpemu node create --sharing "
                "mig`",
                name());
  }
  return {};
}

Result<void> Node::change_mig(int device, std::span<const profile::MigProfile> profiles,
                              const std::function<Result<void>(MigLayout&)>& change) {
  GPEMU_TRY(check_mig(device, profiles));
  if (!segment_->mig_mode(device).divided) {
    return fail(ErrorCode::kUnsupported,
                "MIG is off for device {} of node '{}': `gpemu nvidia-smi -i {} -mig 1` switches "
                "it on",
                device, name(), device);
  }
  return segment_->mig_table(device).change(profiles, change);
}

Result<MigMode> Node::set_mig_mode(int device, std::span<const profile::MigProfile> profiles,
                                   bool divided) {
  GPEMU_TRY(check_mig(device, profiles));
  MigMode mode = mig_mode(device);
  const auto publish = [&](bool now) {
    mode = {.divided = now, .pending = divided};
    segment_->settings(device).mig_mode = (now ? 0U : 1U) | (divided ? 0U : 2U);
  };
  publish(mode.divided);
  if (mode.divided == divided) return mode;
  if (divided) {
    // A process publishes its use of the device before it looks at the mode.
    if (!segment_->users(device).empty()) return mode;
    publish(true);
    if (!segment_->users(device).empty()) publish(false);
    return mode;
  }
  const auto destroyed =
      segment_->mig_table(device).change(profiles, [](MigLayout& layout) -> Result<void> {
        for (const MigInstance& instance : std::vector(layout.instances())) {
          for (const MigComputeInstance& part : instance.compute) {
            GPEMU_TRY(layout.destroy_compute(instance.id, part.id));
          }
          GPEMU_TRY(layout.destroy(instance.id));
        }
        return {};
      });
  if (destroyed) {
    publish(false);
  } else if (destroyed.error().code != ErrorCode::kUnavailable) {
    return std::unexpected(destroyed.error());
  }
  return mode;
}

Result<void> Node::set_compute_mode(int device, ComputeMode mode) {
  GPEMU_CHECK(device >= 0 && device < device_count(), "device index out of range");
  GPEMU_TRY(segment_->check_owner());
  segment_->settings(device).compute_mode = static_cast<std::uint32_t>(mode);
  return {};
}

ComputeMode Node::compute_mode(int device) const {
  GPEMU_CHECK(device >= 0 && device < device_count(), "device index out of range");
  return segment_->compute_mode(device);
}

Result<void> Node::set_time_slice(int device, TimeSliceLength length) {
  GPEMU_CHECK(device >= 0 && device < device_count(), "device index out of range");
  GPEMU_TRY(segment_->check_owner());
  if (!uses_time_slices(policy())) {
    return fail(ErrorCode::kUnsupported,
                "processes do not share the devices of node '{}' by time "
                "slices",
                name());
  }
  segment_->settings(device).time_slice = static_cast<std::uint32_t>(length);
  // So that it applies from now on, although they may not look for a while.
  TimeSlices slices;
  static_cast<void>(segment_->slice_table(device).read(slices));
  for (const Sharer& sharer : slices.sharers) ring(sharer.identity);
  return {};
}

Bytes Node::mig_memory_used(int device, int memory_place) const {
  return segment_->memory_held_at(segment_->facts().mig_place(device, memory_place));
}

bool Node::has_faults(int device) const {
  return segment_->faults().has_any(device);
}

DeviceHealth Node::health(int device, TimePoint now) const {
  return segment_->faults().health(device, now);
}

double Node::link_share(int device, int peer, profile::GpuLink link, TimePoint now) const {
  return segment_->faults().link_share(device, peer, link, now);
}

bool Node::nvlink_is_broken(int device, int peer, TimePoint now) const {
  return segment_->faults().nvlink_is_broken(device, peer, now);
}

std::vector<DeviceXid> Node::xids(int device, TimePoint now) const {
  return segment_->faults().xids(device, now);
}

TimePoint Node::lost_from(int device) const {
  return segment_->faults().lost_from(device);
}

TimePoint Node::killed_at(int device, TimePoint now) const {
  return segment_->faults().killed_at(device, now);
}

bool Node::count_collective(int device, TimePoint now) {
  const FaultTable::Begun begun = segment_->faults().count(device, now, segment_->fault_records());
  if (!begun.any) return false;
  const Lock lock(schedule_->mutex);
  schedule_->place_again(now);
  schedule_->news.tell();
  return begun.kill;
}

void Node::count_collective_ahead(int device, TimePoint time) const {
  segment_->faults().count(device, time, segment_->fault_records());
}

std::span<const profile::Fault> Node::faults() const {
  return segment_->facts().faults.faults;
}

void Node::count_traffic(int device, std::optional<int> nvlink, const LinkTraffic& bytes) const {
  layout::LinkRecord& links = segment_->links(device);
  layout::LinkRecord::Count& count =
      nvlink ? links.nvlinks[static_cast<std::size_t>(*nvlink)] : links.pcie;
  count.sent.fetch_add(bytes.sent, std::memory_order_relaxed);
  count.received.fetch_add(bytes.received, std::memory_order_relaxed);
}

Result<void> Node::set_power_limit(int device, double limit_w, TimePoint now) {
  GPEMU_TRY(segment_->check_owner());
  const PowerSnapshot power = device_snapshot(device, now).power;
  const double max_w = segment_->facts(device).max_power_w;
  // NaN is in no range.
  if (limit_w != 0 && !(limit_w >= power.min_limit_w && limit_w <= max_w)) {
    return fail(ErrorCode::kInvalidArgument,
                "device {} of node '{}', a {}, takes a power limit of {:.1f} to {:.1f} W, not {:g}",
                device, name(), segment_->facts(device).gpu, power.min_limit_w, max_w, limit_w);
  }
  return segment_->change_power(device, now,
                                [=](PowerSettings& settings) { settings.limit_w = limit_w; });
}

Result<void> Node::lock_clock(int device, double clock_mhz, TimePoint now) {
  GPEMU_CHECK(device >= 0 && device < device_count(), "device index out of range");
  GPEMU_TRY(segment_->check_owner());
  if (!(clock_mhz >= 0)) {
    return fail(ErrorCode::kInvalidArgument, "a clock of {:g} MHz does not exist", clock_mhz);
  }
  const double boost = segment_->facts(device).facts.boost_clock_mhz;
  if (boost <= 0) {
    return fail(ErrorCode::kUnsupported, "the clock of device {} of node '{}', a {}, is not known",
                device, name(), segment_->facts(device).gpu);
  }
  const double locked =
      clock_mhz == 0 ? 0 : std::clamp(clock_mhz, std::min(kLowestLockedMhz, boost), boost);
  return segment_->change_power(device, now,
                                [=](PowerSettings& settings) { settings.clock_mhz = locked; });
}

bool Node::count_kernel(int device, TimePoint now) {
  bool has_begun = false;
  const std::span<const profile::Fault> faults = segment_->faults().faults();
  for (std::size_t i = 0; i < faults.size(); ++i) {
    const profile::Fault& fault = faults[i];
    if (fault.gpu != device || fault.kind != profile::FaultKind::kIllegalAddress) continue;
    layout::FaultRecord& record = segment_->fault_records()[i];
    if (record.begun_ns != 0) continue;
    // Of several processes, one has the fault.
    const bool is_due = fault.at_kernel != 0
                            ? ++record.count == fault.at_kernel
                            : now - segment_->facts().made >= fault.at && ++record.count == 1;
    if (!is_due) continue;
    record.begun_ns = std::max(to_ns(now), std::int64_t{1});
    has_begun = true;
  }
  return has_begun;
}

sim::SharedClock& Node::clock() const {
  return segment_->clock();
}

sim::ClockPage& Node::clock_page() const {
  return segment_->clock_page();
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
