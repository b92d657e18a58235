// SPDX-License-Identifier: Apache-2.0
#include "gpemu/device/device.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "gpemu/base/saturate.hpp"
#include "gpemu/base/undo.hpp"

#include "power.hpp"
#include "schedule.hpp"
#include "segment.hpp"

namespace gpemu::device {
namespace {

/// The longest time for which a process that is held back does not look at the others.
constexpr Duration kLongestHold = std::chrono::milliseconds(10);

/// Returns what a kernel needs that waits for memory for a share of its time, and computes for the
/// rest of it on a share of the multiprocessors.
KernelNeeds needs_of(double memory_share, double width) {
  const auto part = [](double share) {
    const double bounded = share > 0 ? std::min(share, 1.0) : 0;  // Also if it is not a number.
    return static_cast<std::uint32_t>(bounded * kWholeWidth + 0.5);
  };
  const std::uint32_t memory = part(memory_share);
  return {.compute = std::max(part(width) * (kWholeWidth - memory) / kWholeWidth, 1U),
          .memory = memory};
}

/// Returns what such a kernel takes of the GPU while it runs. Anything but a part is all of it.
Room room_of(double memory_share, double width) {
  if (!(width < 1)) [[likely]]
    return {};
  const auto part = [](double share, std::uint32_t whole) {
    return static_cast<std::uint16_t>(share > 0 ? std::min(share, 1.0) * whole + 0.5 : 0);
  };
  return {.width = std::max<std::uint16_t>(part(width, kWholeWidth), 1),
          .memory = static_cast<std::uint8_t>(part(memory_share, Room::kWholeRate))};
}

}  // namespace

struct Device::State {
  // The addresses of devices are far from each other and from zero, so an address shows its device.
  State(int place, LaunchClock launch_clock)
      : compute_place(place),
        memory_place(place),
        launches(launch_clock),
        next_address((static_cast<DeviceAddress>(place) + 1) << 44) {}

  std::shared_ptr<Node> node;
  Segment* segment;
  int index = 0;
  /// Where the segment has its contexts and its compute engine, and its memory and copy engines.
  int compute_place, memory_place;
  std::array<std::size_t, kEngineCount> engines{};  ///< of the schedule.
  sim::Clock* clock;
  /// Of this process and device, however often the device is open.
  DeviceClaims* claims;  ///< of memory.
  Schedule* schedule;
  bool asks = false;     ///< when it may launch kernels, or the policy must know what these need.
  LaunchClock launches;  ///< guarded by the schedule's mutex.
  std::shared_ptr<LaneGroup> lanes = std::make_shared<LaneGroup>();

  /// Leaves the sharing of the device, unless that was done before.
  void leave() {
    const Lock lock(schedule->mutex);
    if (!std::exchange(has_left, true)) {
      schedule->leave(static_cast<std::size_t>(compute_place), clock->now());
    }
    schedule->news.tell();
  }
  bool has_left = false;  ///< guarded by the schedule's mutex.

  Mutex mutex;
  std::unordered_map<DeviceAddress, Bytes> allocations GPEMU_GUARDED_BY(mutex);
  DeviceAddress next_address GPEMU_GUARDED_BY(mutex);
  std::unique_ptr<Stream> default_stream;
};

// ---- Device

Device::Device(std::unique_ptr<State> state) : state_(std::move(state)) {
  auto lane = std::make_unique<Lane>(state_->lanes);
  lane->blocking = true;
  state_->lanes->legacy = lane.get();
  state_->lanes->device = static_cast<std::size_t>(state_->compute_place);
  state_->lanes->copies = static_cast<std::size_t>(state_->memory_place);
  for (std::size_t i = 0; i < kEngineCount; ++i) {
    const bool computes = i == static_cast<std::size_t>(Engine::kCompute);
    const std::size_t place = computes ? state_->lanes->device : state_->lanes->copies;
    state_->engines[i] = place * kEngineCount + i;
  }
  {
    const Lock lock(state_->schedule->mutex);
    state_->schedule->add(state_->lanes);
  }
  state_->default_stream.reset(new Stream(*this, std::move(lane)));
}

Result<std::unique_ptr<Device::State>> Device::attach(std::shared_ptr<Node> node, int place,
                                                      sim::Clock& clock,
                                                      std::optional<MpsClient> client,
                                                      const ComputeShare& share) {
  Segment& segment = *node->segment_;
  Schedule& schedule = *node->schedule_;
  if (share.part > 0 &&
      (client || is_side_by_side(node->policy()) || !layout::has_slice_tables(node->policy()))) {
    return fail(ErrorCode::kUnsupported,
                "this process has a share of the compute time ({} % of a GPU), which only GPUs "
                "have that processes share by time slices, without MPS; node '{}' has others: "
                "make one with `gpemu node create --sharing time-slices`",
                share.part * 100.0 / kWholeWidth, node->name());
  }
  if (is_side_by_side(node->policy())) {
    client = client.value_or(MpsClient{});
    client->server = MpsClient{}.server;
  } else if (client && !uses_time_slices(node->policy())) {
    return fail(ErrorCode::kUnsupported,
                "clients of MPS cannot share the devices of node '{}': make one with `gpemu node "
                "create --sharing time-slices` or `--sharing mps`",
                node->name());
  }
  GPEMU_TRY(segment.add_context(place, client.has_value()));
  {
    const Lock lock(schedule.mutex);
    if (!schedule.join(static_cast<std::size_t>(place), clock.now(),
                       {.client = client, .priority = node->priority(), .share = share})) {
      segment.claims(place).remove_context();
      return fail(ErrorCode::kResourceLimit,
                  "device {} of node '{}' has {} processes, and no more can share it; "
                  "end some of them (`gpemu smi {}` shows them)",
                  place, node->name(), layout::kMostSharers, node->name());
    }
  }
  if (layout::has_slice_tables(node->policy())) node->start_to_settle(clock);
  const int index = segment.facts().device_of(place);
  auto state =
      std::make_unique<State>(place, LaunchClock(segment.power_table(index), segment.facts(index)));
  state->index = index;
  state->node = std::move(node);
  state->segment = &segment;
  state->clock = &clock;
  state->claims = &segment.claims(place);
  state->claims->set_tenant(share.tenant);
  if (client && client->memory) state->claims->set_limit(*client->memory);
  state->schedule = &schedule;
  state->asks = state->node->policy() == SharingPolicy::kOrion ||
                (has_launch_policy(state->node->policy()) &&
                 state->node->priority() == ProcessPriority::kLow);
  return state;
}

Result<std::unique_ptr<Device>> Device::open(std::shared_ptr<Node> node, int index,
                                             sim::Clock& clock,
                                             const std::optional<MpsClient>& client,
                                             const ComputeShare& share) {
  if (index < 0 || index >= node->device_count()) {
    return fail(ErrorCode::kNotFound, "node '{}' has no device {}: its devices are 0 to {}",
                node->name(), index, node->device_count() - 1);
  }
  const auto divided = [index](const Node& its) {
    return fail(ErrorCode::kUnsupported,
                "MIG divides device {} of node '{}', so only its MIG devices can be used: "
                "CUDA programs see the one whose UUID CUDA_VISIBLE_DEVICES has",
                index, its.name());
  };
  if (node->mig(index).mode().divided) return divided(*node);
  GPEMU_ASSIGN(std::unique_ptr<State> state, attach(node, index, clock, client, share));
  std::unique_ptr<Device> device(new Device(std::move(state)));
  // Somebody may have switched MIG on without seeing this process.
  if (node->mig(index).mode().divided) return divided(*node);
  return device;
}

Result<std::unique_ptr<Device>> Device::open(std::shared_ptr<Node> node, const MigDevice& mig,
                                             sim::Clock& clock, const ComputeShare& share) {
  const auto gone = [&] {
    return fail(ErrorCode::kNotFound, "the MIG device {} of node '{}' does not exist any more",
                mig.uuid, node->name());
  };
  if (mig.gpu < 0 || mig.gpu >= node->device_count() || !node->mig(mig.gpu).mode().divided) {
    return gone();
  }
  Segment& segment = *node->segment_;
  const NodeFacts& facts = segment.facts();
  const int place = facts.mig_place(mig.gpu, mig.compute_place);
  GPEMU_ASSIGN(std::unique_ptr<State> state, attach(node, place, clock, {}, share));
  // From here on, the destructor gives back what was taken.
  state->memory_place = facts.mig_place(mig.gpu, mig.memory_place);
  state->claims = &segment.claims(state->memory_place);
  state->claims->set_tenant(share.tenant);
  std::unique_ptr<Device> device(new Device(std::move(state)));
  if (!segment.mig_table(mig.gpu).keep(mig)) return gone();
  device->state_->claims->set_capacity(mig.memory_bytes);
  return device;
}

Device::~Device() {
  state_->default_stream.reset();
  // In a forked child, all of this belongs to the parent.
  if (!state_->segment->owned_by_this_process()) return;
  Bytes held = 0;
  for (const auto& [address, bytes] : state_->allocations) held += bytes;
  if (held > 0) state_->claims->give_back_memory(held);
  state_->leave();
  state_->segment->claims(state_->compute_place).remove_context();
}

void Device::abandon() {
  if (!state_->segment->owned_by_this_process()) return;
  state_->leave();
  // Whoever is alone on the device from now on must not queue after its work.
  for (const int place : {state_->compute_place, state_->memory_place}) {
    for (layout::HoldingRecord::Use& use : state_->segment->own_holding(place).engines) {
      use.tail_ns = to_ns(state_->clock->now());
    }
  }
}

int Device::index() const {
  return state_->index;
}
sim::Clock& Device::clock() const {
  return *state_->clock;
}
Node& Device::node() const {
  return *state_->node;
}
Event Device::read(const Event& event) const {
  const Lock lock(state_->schedule->mutex);
  return event;
}
Result<void> Device::check_owner() const {
  return state_->segment->check_owner();
}
void Device::observe(std::function<void(const StartedWork&)> observer) {
  const Lock lock(state_->schedule->mutex);
  state_->lanes->observer = std::move(observer);
}
Stream& Device::default_stream() {
  return *state_->default_stream;
}

std::unique_ptr<Stream> Device::create_stream(StreamKind kind, std::int8_t priority) {
  auto lane = std::make_unique<Lane>(state_->lanes);
  lane->blocking = kind == StreamKind::kBlocking;
  {
    const Lock lock(state_->schedule->mutex);
    if (lane->blocking) state_->lanes->blocking.push_back(lane.get());
    state_->schedule->set_priority(*lane, priority);
  }
  return std::unique_ptr<Stream>(new Stream(*this, std::move(lane)));
}

/// Returns why so much memory could not be taken.
std::unexpected<Error> Device::out_of_memory(Bytes bytes) const {
  const Segment& segment = *state_->segment;
  const Bytes total = state_->claims->capacity();
  const Bytes used = segment.memory_used(state_->memory_place);
  const Bytes held = std::min(state_->claims->memory(), used);
  const std::string& gpu = segment.facts(state_->index).gpu;
  if (const Bytes limit = state_->claims->limit(); bytes <= total - used && limit < total) {
    return fail(ErrorCode::kOutOfMemory,
                "out of memory on device {} ({}): {:.1f} MiB requested; this process holds {:.1f} "
                "of the {:.1f} MiB to which it is limited",
                state_->index, gpu, to_mib(bytes), to_mib(held), to_mib(limit));
  }
  const std::string others = segment.largest_holders(state_->memory_place);
  return fail(ErrorCode::kOutOfMemory,
              "out of memory on device {} ({}): {:.1f} MiB requested, {:.1f} MiB free of {:.1f} "
              "MiB; this process holds {:.1f} MiB, others {:.1f} MiB{}{}",
              state_->index, gpu, to_mib(bytes), to_mib(total - used), to_mib(total), to_mib(held),
              to_mib(used - held), others.empty() ? "" : ": ", others);
}

Result<DeviceAddress> Device::allocate(Bytes bytes) {
  if (bytes == 0) return fail(ErrorCode::kInvalidArgument, "cannot allocate 0 bytes");
  GPEMU_TRY(state_->segment->check_owner());
  const Bytes total = state_->claims->capacity();
  const Bytes rounded = bytes > total ? bytes
                                      : (bytes + kAllocationGranularity - 1) /
                                            kAllocationGranularity * kAllocationGranularity;
  if (!state_->claims->take_memory(rounded)) return out_of_memory(rounded);
  Undo taken([&] { state_->claims->give_back_memory(rounded); });
  const Lock lock(state_->mutex);
  const DeviceAddress address = state_->next_address;
  state_->allocations.emplace(address, rounded);
  state_->next_address += rounded;
  taken.keep();
  return address;
}

Result<void> Device::free(DeviceAddress address) {
  GPEMU_TRY(state_->segment->check_owner());
  Bytes bytes = 0;
  {
    const Lock lock(state_->mutex);
    const auto found = state_->allocations.find(address);
    if (found == state_->allocations.end()) {
      return fail(ErrorCode::kInvalidArgument,
                  "{:#x} is not the start of an allocation on device {}", address, state_->index);
    }
    bytes = found->second;
    state_->allocations.erase(found);
  }
  state_->claims->give_back_memory(bytes);
  return {};
}

void Device::limit_memory(Bytes limit) {
  state_->claims->set_limit(limit);
}

MemoryInfo Device::memory_info() const {
  const Bytes total = state_->claims->capacity();
  const Bytes used = state_->segment->memory_used(state_->memory_place);
  const Bytes held = std::min(state_->claims->memory(), used);
  const Bytes limit = std::min(state_->claims->limit(), total);
  const Bytes limited = std::min(state_->claims->limited_memory(), limit);
  return {.total = limit, .free = std::min(total - used, limit - limited), .held = held};
}

std::vector<Moment> Device::ends() const {
  const Lock lock(state_->schedule->mutex);
  return state_->schedule->ends_of(*state_->lanes, state_->clock->now());
}

void Device::synchronize() {
  for (const Moment& end : ends()) end.wait(*state_->clock);
}

// ---- Stream

Stream::Stream(Device& device, std::unique_ptr<Lane> lane)
    : device_(device), lane_(std::move(lane)) {}

Stream::~Stream() {
  const Device::State& device = *device_.state_;
  if (!device.segment->owned_by_this_process()) {
    // In a forked child, the schedule belongs to the parent, and its lock may be held for ever.
    static_cast<void>(lane_.release());
    return;
  }
  const Lock lock(device.schedule->mutex);
  device.schedule->abandon(std::move(lane_), device.clock->now());
}

const Node& Stream::node() const {
  return *device_.state_->node;
}

QueuedWork Stream::launch(Duration cost, double memory_share, double width, int waves) {
  Device::State& device = *device_.state_;
  if (device.asks) [[unlikely]]
    wait_to_launch(cost, memory_share, width);
  const Lock lock(device.schedule->mutex);
  return device.schedule->queue(*lane_, device.engines[static_cast<std::size_t>(Engine::kCompute)],
                                device.clock->now(), device.launches.time_of(cost, memory_share), 0,
                                room_of(memory_share, width), waves);
}

/// Blocks until the policy allows a kernel, which is launched next. If threads of this process
/// launch at the same time, what their kernels need may be mixed up.
void Stream::wait_to_launch(Duration cost, double memory_share, double width) {
  Device::State& device = *device_.state_;
  const auto place = static_cast<std::size_t>(device.compute_place);
  const KernelLaunch kernel{.cost = cost, .needs = needs_of(memory_share, width)};
  while (true) {
    TimePoint from{};
    {
      const Lock lock(device.schedule->mutex);
      const TimePoint now = device.clock->now();
      from = device.schedule->launch_from(place, now, kernel);
      if (from <= now) return device.schedule->note_launch(place, kernel);
      // Others may end earlier than they say, or be killed.
      from = std::min(from, saturating_add(now, kLongestHold));
    }
    device.clock->wait_until(from);
  }
}

TimePoint Stream::launch_from(Duration cost, double memory_share, double width) {
  const Device::State& device = *device_.state_;
  const Lock lock(device.schedule->mutex);
  const TimePoint now = device.clock->now();
  if (!device.asks) return now;
  const TimePoint from =
      device.schedule->launch_from(static_cast<std::size_t>(device.compute_place), now,
                                   {.cost = cost, .needs = needs_of(memory_share, width)});
  return std::min(from, saturating_add(now, kLongestHold));
}

QueuedWork Stream::copy(Engine engine, Bytes bytes, Duration cost) {
  GPEMU_CHECK(engine != Engine::kCompute, "a copy needs a copy engine");
  const Device::State& device = *device_.state_;
  const Lock lock(device.schedule->mutex);
  return device.schedule->queue(*lane_, device.engines[static_cast<std::size_t>(engine)],
                                device.clock->now(), cost, bytes);
}

void Stream::record(Event& event) {
  const Device::State& device = *device_.state_;
  const Lock lock(device.schedule->mutex);
  device.schedule->record(*lane_, device.clock->now(), event.moment_);
  event.recorded_ = true;
}

void Stream::wait(const Event& event) {
  if (event.recorded()) wait(event.moment());
}

void Stream::wait(const Moment& moment) {
  const Device::State& device = *device_.state_;
  const Lock lock(device.schedule->mutex);
  device.schedule->wait_in_stream(*lane_, device.clock->now(), moment);
}

void Stream::pause(Duration time) {
  const Device::State& device = *device_.state_;
  const Lock lock(device.schedule->mutex);
  device.schedule->pause_stream(*lane_, device.clock->now(), time);
}

Moment Stream::tail() const {
  const Device::State& device = *device_.state_;
  const Lock lock(device.schedule->mutex);
  return device.schedule->end_of(*lane_, device.clock->now());
}

Moment Stream::last_end() const {
  const Device::State& device = *device_.state_;
  const Lock lock(device.schedule->mutex);
  return device.schedule->last_end(*lane_, device.clock->now());
}

bool Stream::idle() const {
  return tail().is_over(device_.state_->clock->now());
}

void Stream::synchronize() {
  tail().wait(*device_.state_->clock);
}

Result<Duration> elapsed_time(const Event& start, const Event& end, const sim::Clock& clock) {
  if (!start.recorded() || !end.recorded()) {
    return fail(ErrorCode::kInvalidArgument, "the {} event was never recorded",
                start.recorded() ? "end" : "start");
  }
  const TimePoint now = clock.now();
  if (!start.moment().is_over(now) || !end.moment().is_over(now)) {
    return fail(ErrorCode::kNotReady, "at least one of the events is not over yet");
  }
  return end.moment().time() - start.moment().time();
}

}  // namespace gpemu::device
