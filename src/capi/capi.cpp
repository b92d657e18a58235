// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "gpemu/base/log.hpp"
#include "gpemu/cost/step_cost.hpp"
#include "gpemu/device/device.hpp"
#include "gpemu/device/device_config.hpp"
#include "gpemu/device/pinned_memory.hpp"
#include "gpemu/device/rendezvous.hpp"
#include "gpemu/gpemu.h"
#include "gpemu/profile/database.hpp"
#include "gpemu/sim/clock.hpp"

#include "guard.hpp"

struct gpemu_node {
  std::shared_ptr<gpemu::sim::Clock> clock;
  std::shared_ptr<gpemu::device::Node> node;
};

struct gpemu_device {
  std::shared_ptr<gpemu::sim::Clock> clock;
  // Deleted before the clock that it refers to: members end in reverse order.
  std::shared_ptr<gpemu::device::Device> device;
};

struct gpemu_stream {
  gpemu_device device;
  std::unique_ptr<gpemu::device::Stream> owned;  ///< null for the default stream.
  gpemu::device::Stream* stream;
};

struct gpemu_event {
  std::mutex mutex;
  gpemu::device::Event event;                ///< guarded by mutex.
  std::shared_ptr<gpemu::sim::Clock> clock;  ///< of the stream that recorded it; guarded by mutex.
};

struct gpemu_rendezvous {
  std::shared_ptr<gpemu::sim::Clock> clock;
  std::unique_ptr<gpemu::device::Rendezvous> party;
};

struct gpemu_cost_model {
  gpemu::cost::StepCostModel model;
};

struct gpemu_database {
  std::mutex mutex;
  gpemu::profile::Database database;  ///< guarded by mutex.
};

namespace gpemu {
namespace {

void put_interval(gpemu_interval* destination, const device::Interval& interval) {
  if (destination == nullptr) return;
  *destination = {.start_ns = interval.start.time_since_epoch().count(),
                  .end_ns = interval.end.time_since_epoch().count()};
}

gpemu_estimate to_c(const cost::Estimate& estimate) {
  return {.time_ns = estimate.time.count(),
          .relative_error = estimate.relative_error,
          .evidence = static_cast<gpemu_evidence>(estimate.evidence)};
}
static_assert(static_cast<int>(cost::Evidence::kAnalytic) == GPEMU_EVIDENCE_ANALYTIC);
static_assert(static_cast<int>(cost::Evidence::kEmulated) == GPEMU_EVIDENCE_EMULATED);

Result<void> check_duration(std::int64_t duration_ns, const char* function) {
  if (duration_ns >= 0) return {};
  return fail(ErrorCode::kInvalidArgument, "{}: a duration of {} ns is negative", function,
              duration_ns);
}

/// Pinned blocks by address, so that they can be given back by address. The process's own, as its
/// heap is.
struct PinnedBlocks {
  std::mutex mutex;
  std::unordered_map<void*, device::PinnedMemory> blocks;  ///< guarded by mutex.
};

PinnedBlocks& pinned_blocks() {
  static auto* const blocks = new PinnedBlocks();
  return *blocks;
}

/// Says once in a process that memory could not be locked.
void tell_not_locked(Bytes bytes) {
  static std::atomic_flag told;
  if (!told.test_and_set()) log(LogLevel::kWarning, "{}", device::not_locked_text(bytes));
}

/// One for all nodes: events of two handles on a node can be compared.
const std::shared_ptr<sim::Clock>& real_clock() {
  static const auto* const clock =
      new std::shared_ptr<sim::Clock>(std::make_shared<sim::RealClock>());
  return *clock;
}

/// A node whose time is skipped has a clock of its own.
std::shared_ptr<sim::Clock> clock_of(const std::shared_ptr<device::Node>& node) {
  if (node->clock_page().skipping == 0) return real_clock();
  return {node, &node->clock()};
}

Result<gpemu_node> create_node(const gpemu_node_config& config) {
  const bool is_virtual = config.clock == GPEMU_CLOCK_VIRTUAL;
  if (is_virtual && config.name != nullptr) {
    return fail(ErrorCode::kInvalidArgument, "only a private node may have a virtual clock");
  }
  if (config.device_count < 1) {
    return fail(ErrorCode::kInvalidArgument, "a node needs at least one device, not {}",
                config.device_count);
  }
  GPEMU_ASSIGN(const profile::Database database, profile::Database::open());
  GPEMU_ASSIGN(const profile::GpuSpec spec, database.gpu(config.gpu));
  const device::NodeConfig node_config{
      .name = config.name != nullptr ? config.name : "private",
      .devices =
          std::vector(static_cast<std::size_t>(config.device_count), device::device_config(spec)),
      .temporary = true};
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

using gpemu::Error;
using gpemu::ErrorCode;
using gpemu::fail;
using gpemu::guard;
using gpemu::require;
using gpemu::Result;

const char* gpemu_last_error(void) {
  const auto* const last = gpemu::PerThread<gpemu::LastError>::get();
  return last == nullptr ? "" : last->message;
}

const char* gpemu_status_name(gpemu_status status) {
  switch (status) {
    case GPEMU_OK:
      return "success";
#define X(name, c_name, value, exit_code, meaning) \
  case c_name:                                     \
    return meaning;
#include "gpemu/base/error_codes.def"
#undef X
  }
  return "unknown status";
}

const char* gpemu_version(void) {
  return GPEMU_VERSION;
}

// ---- Nodes

gpemu_status gpemu_node_create(const gpemu_node_config* config, gpemu_node** node) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_node_create", config, node));
    if (config->struct_size != sizeof(gpemu_node_config)) {
      return fail(ErrorCode::kInvalidArgument, "set struct_size to sizeof(gpemu_node_config), {}",
                  sizeof(gpemu_node_config));
    }
    GPEMU_TRY(require("gpemu_node_create: gpu", config->gpu));
    GPEMU_ASSIGN(gpemu_node created, gpemu::create_node(*config));
    *node = new gpemu_node(std::move(created));
    return {};
  });
}

gpemu_status gpemu_node_open(const char* name, gpemu_node** node) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_node_open", name, node));
    GPEMU_ASSIGN(auto opened, gpemu::device::Node::open(name));
    *node = new gpemu_node{.clock = gpemu::clock_of(opened), .node = std::move(opened)};
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
    *now_ns = node->clock->now().time_since_epoch().count();
    return {};
  });
}

gpemu_status gpemu_node_wait_until(gpemu_node* node, int64_t time_ns) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_node_wait_until", node));
    node->clock->wait_until(gpemu::TimePoint(gpemu::Duration(time_ns)));
    return {};
  });
}

gpemu_status gpemu_host_now(int64_t* now_ns) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_host_now", now_ns));
    *now_ns = gpemu::sim::RealClock().now().time_since_epoch().count();
    return {};
  });
}

gpemu_status gpemu_host_wait_until(int64_t time_ns) {
  return guard([=]() -> Result<void> {
    gpemu::sim::RealClock().wait_until(gpemu::TimePoint(gpemu::Duration(time_ns)));
    return {};
  });
}

// ---- Devices

gpemu_status gpemu_device_open(gpemu_node* node, int32_t index, gpemu_device** device) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_device_open", node, device));
    GPEMU_ASSIGN(auto opened, gpemu::device::Device::open(node->node, index, *node->clock));
    *device = new gpemu_device{.clock = node->clock, .device = std::move(opened)};
    return {};
  });
}

void gpemu_device_close(gpemu_device* device) {
  delete device;
}

gpemu_status gpemu_device_get_info(const gpemu_device* device, gpemu_device_info* info) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_device_get_info", device, info));
    const gpemu::device::DeviceSnapshot snapshot =
        device->device->node().device_snapshot(device->device->index(), device->clock->now());
    gpemu_device_info filled{};
    gpemu::copy_text(filled.gpu, snapshot.gpu);
    gpemu::copy_text(filled.uuid, snapshot.uuid);
    gpemu::copy_text(filled.pci_bus_id, snapshot.pci_bus_id);
    filled.memory_bytes = snapshot.memory_total;
    return gpemu::fill(info, filled, "gpemu_device_get_info");
  });
}

gpemu_status gpemu_device_synchronize(gpemu_device* device) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_device_synchronize", device));
    GPEMU_TRY(device->device->check_owner());
    device->device->synchronize();
    return {};
  });
}

// ---- Memory

gpemu_status gpemu_device_allocate(gpemu_device* device, uint64_t bytes, uint64_t* address) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_device_allocate", device, address));
    GPEMU_ASSIGN(*address, device->device->allocate(bytes));
    return {};
  });
}

gpemu_status gpemu_device_free(gpemu_device* device, uint64_t address) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_device_free", device));
    return device->device->free(address);
  });
}

gpemu_status gpemu_device_memory(const gpemu_device* device, uint64_t* free_bytes,
                                 uint64_t* total_bytes) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_device_memory", device, free_bytes, total_bytes));
    GPEMU_TRY(device->device->check_owner());
    const gpemu::device::MemoryInfo info = device->device->memory_info();
    *free_bytes = info.free;
    *total_bytes = info.total;
    return {};
  });
}

gpemu_status gpemu_pinned_allocate(uint64_t bytes, void** memory) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_pinned_allocate", memory));
    GPEMU_ASSIGN(auto pinned, gpemu::device::PinnedMemory::allocate(bytes));
    if (!pinned.locked()) gpemu::tell_not_locked(bytes);
    void* const address = pinned.bytes().data();
    auto& [mutex, blocks] = gpemu::pinned_blocks();
    const std::lock_guard lock(mutex);
    blocks.emplace(address, std::move(pinned));
    *memory = address;
    return {};
  });
}

gpemu_status gpemu_pinned_lock(void* memory, uint64_t bytes) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_pinned_lock", memory));
    if (bytes == 0) return fail(ErrorCode::kInvalidArgument, "cannot pin 0 bytes");
    GPEMU_ASSIGN(const bool locked,
                 gpemu::device::lock_pages({static_cast<std::byte*>(memory), bytes}));
    if (!locked) gpemu::tell_not_locked(bytes);
    return {};
  });
}

gpemu_status gpemu_pinned_free(void* memory) {
  return guard([=]() -> Result<void> {
    auto& [mutex, blocks] = gpemu::pinned_blocks();
    const std::lock_guard lock(mutex);
    if (memory == nullptr || blocks.erase(memory) == 1) return {};
    return fail(ErrorCode::kInvalidArgument, "{} is not a block of pinned memory", memory);
  });
}

// ---- Streams

gpemu_status gpemu_stream_create(gpemu_device* device, gpemu_stream_kind kind,
                                 gpemu_stream** stream) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_stream_create", device, stream));
    auto created = device->device->create_stream(kind == GPEMU_STREAM_NON_BLOCKING
                                                     ? gpemu::device::StreamKind::kNonBlocking
                                                     : gpemu::device::StreamKind::kBlocking);
    gpemu::device::Stream* const raw = created.get();
    *stream = new gpemu_stream{.device = *device, .owned = std::move(created), .stream = raw};
    return {};
  });
}

gpemu_status gpemu_stream_default(gpemu_device* device, gpemu_stream** stream) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_stream_default", device, stream));
    *stream = new gpemu_stream{
        .device = *device, .owned = nullptr, .stream = &device->device->default_stream()};
    return {};
  });
}

void gpemu_stream_destroy(gpemu_stream* stream) {
  delete stream;
}

gpemu_status gpemu_stream_launch(gpemu_stream* stream, int64_t duration_ns,
                                 gpemu_interval* interval) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_stream_launch", stream));
    GPEMU_TRY(stream->device.device->check_owner());
    GPEMU_TRY(gpemu::check_duration(duration_ns, "gpemu_stream_launch"));
    gpemu::put_interval(interval, stream->stream->launch(gpemu::Duration(duration_ns)));
    return {};
  });
}

gpemu_status gpemu_stream_copy(gpemu_stream* stream, gpemu_copy_direction direction, uint64_t bytes,
                               int64_t duration_ns, gpemu_interval* interval) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_stream_copy", stream));
    GPEMU_TRY(stream->device.device->check_owner());
    GPEMU_TRY(gpemu::check_duration(duration_ns, "gpemu_stream_copy"));
    const auto engine = direction == GPEMU_COPY_HOST_TO_DEVICE
                            ? gpemu::device::Engine::kCopyHostToDevice
                            : gpemu::device::Engine::kCopyDeviceToHost;
    gpemu::put_interval(interval,
                        stream->stream->copy(engine, bytes, gpemu::Duration(duration_ns)));
    return {};
  });
}

gpemu_status gpemu_stream_query(const gpemu_stream* stream) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_stream_query", stream));
    GPEMU_TRY(stream->device.device->check_owner());
    if (stream->stream->idle()) return {};
    return std::unexpected(Error{ErrorCode::kNotReady, {}});
  });
}

gpemu_status gpemu_stream_synchronize(gpemu_stream* stream) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_stream_synchronize", stream));
    GPEMU_TRY(stream->device.device->check_owner());
    stream->stream->synchronize();
    return {};
  });
}

// ---- Events

gpemu_status gpemu_event_create(gpemu_event** event) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_event_create", event));
    *event = new gpemu_event();
    return {};
  });
}

void gpemu_event_destroy(gpemu_event* event) {
  delete event;
}

gpemu_status gpemu_event_record(gpemu_event* event, gpemu_stream* stream) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_event_record", event, stream));
    GPEMU_TRY(stream->device.device->check_owner());
    const std::lock_guard lock(event->mutex);
    stream->stream->record(event->event);
    event->clock = stream->device.clock;
    return {};
  });
}

namespace gpemu {
namespace {

/// Returns a copy of the event and the clock that it was recorded on.
std::pair<device::Event, std::shared_ptr<sim::Clock>> read(const gpemu_event* event) {
  auto* const mutable_event = const_cast<gpemu_event*>(event);
  const std::lock_guard lock(mutable_event->mutex);
  return {event->event, event->clock};
}

}  // namespace
}  // namespace gpemu

gpemu_status gpemu_stream_wait_event(gpemu_stream* stream, const gpemu_event* event) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_stream_wait_event", stream, event));
    GPEMU_TRY(stream->device.device->check_owner());
    stream->stream->wait(gpemu::read(event).first);
    return {};
  });
}

gpemu_status gpemu_event_query(const gpemu_event* event) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_event_query", event));
    const auto [recorded, clock] = gpemu::read(event);
    if (!recorded.recorded() || recorded.moment().is_over(clock->now())) return {};
    return std::unexpected(Error{ErrorCode::kNotReady, {}});
  });
}

gpemu_status gpemu_event_synchronize(const gpemu_event* event) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_event_synchronize", event));
    const auto [recorded, clock] = gpemu::read(event);
    if (recorded.recorded()) recorded.moment().wait(*clock);
    return {};
  });
}

gpemu_status gpemu_event_elapsed(const gpemu_event* start, const gpemu_event* end,
                                 int64_t* elapsed_ns) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_event_elapsed", start, end, elapsed_ns));
    const auto [first, first_clock] = gpemu::read(start);
    const auto [last, last_clock] = gpemu::read(end);
    const auto& clock = first_clock != nullptr ? first_clock : gpemu::real_clock();
    if (last_clock != nullptr && first_clock != nullptr && first_clock != last_clock) {
      return fail(ErrorCode::kInvalidArgument, "the events were recorded on different clocks");
    }
    GPEMU_ASSIGN(const gpemu::Duration elapsed, gpemu::device::elapsed_time(first, last, *clock));
    *elapsed_ns = elapsed.count();
    return {};
  });
}

gpemu_status gpemu_event_time(const gpemu_event* event, int64_t* time_ns) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_event_time", event, time_ns));
    const auto [recorded, clock] = gpemu::read(event);
    if (!recorded.recorded()) {
      return fail(ErrorCode::kInvalidArgument, "the event was never recorded");
    }
    if (!recorded.moment().is_over(clock->now())) {
      return fail(ErrorCode::kNotReady, "the event has not happened yet");
    }
    *time_ns = recorded.moment().time().time_since_epoch().count();
    return {};
  });
}

// ---- Rendezvous

gpemu_status gpemu_rendezvous_create_group(gpemu_node* node, int32_t parties,
                                           char id[GPEMU_GROUP_ID_BYTES]) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_rendezvous_create_group", node, id));
    GPEMU_ASSIGN(const gpemu::device::GroupId group,
                 gpemu::device::Rendezvous::create_group(*node->node, parties));
    const std::string text = group.to_string();
    GPEMU_CHECK(text.size() < GPEMU_GROUP_ID_BYTES, "a group's id is short");
    std::ranges::fill(id, id + GPEMU_GROUP_ID_BYTES, '\0');
    text.copy(id, text.size());
    return {};
  });
}

gpemu_status gpemu_rendezvous_join(gpemu_node* node, const char* id, int32_t seat,
                                   gpemu_rendezvous** rendezvous) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_rendezvous_join", node, id, rendezvous));
    GPEMU_ASSIGN(const gpemu::device::GroupId group, gpemu::device::GroupId::parse(id));
    GPEMU_ASSIGN(auto party,
                 gpemu::device::Rendezvous::join(node->node, group, seat, *node->clock));
    *rendezvous = new gpemu_rendezvous{node->clock, std::move(party)};
    return {};
  });
}

void gpemu_rendezvous_leave(gpemu_rendezvous* rendezvous) {
  delete rendezvous;
}

gpemu_status gpemu_rendezvous_arrive(gpemu_rendezvous* rendezvous, gpemu_stream* stream,
                                     int64_t cost_ns, gpemu_event* end) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_rendezvous_arrive", rendezvous, stream));
    GPEMU_TRY(gpemu::check_duration(cost_ns, "gpemu_rendezvous_arrive"));
    GPEMU_ASSIGN(gpemu::device::Moment moment,
                 rendezvous->party->arrive(*stream->stream, gpemu::Duration(cost_ns)));
    if (end == nullptr) return {};
    const std::lock_guard lock(end->mutex);
    end->event = gpemu::device::Event(std::move(moment));
    end->clock = stream->device.clock;
    return {};
  });
}

gpemu_status gpemu_rendezvous_check(gpemu_rendezvous* rendezvous) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_rendezvous_check", rendezvous));
    return rendezvous->party->check();
  });
}

gpemu_status gpemu_rendezvous_synchronize(gpemu_rendezvous* rendezvous, gpemu_stream* stream,
                                          int64_t timeout_ns) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_rendezvous_synchronize", rendezvous, stream));
    GPEMU_TRY(stream->device.device->check_owner());
    return rendezvous->party->wait(
        stream->stream->tail(),
        timeout_ns < 0 ? std::nullopt : std::optional(gpemu::Duration(timeout_ns)));
  });
}

gpemu_status gpemu_rendezvous_statistics(gpemu_rendezvous* rendezvous,
                                         gpemu_round_statistics* statistics) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_rendezvous_statistics", rendezvous, statistics));
    GPEMU_ASSIGN(const gpemu::device::RoundStatistics rounds, rendezvous->party->statistics());
    const gpemu_round_statistics filled{.struct_size = 0,
                                        .rounds = rounds.rounds,
                                        .median_late_ns = rounds.median_late.count(),
                                        .latest_ns = rounds.latest.count(),
                                        .settling_cpu_ns = rounds.settling.count()};
    return gpemu::fill(statistics, filled, "gpemu_rendezvous_statistics");
  });
}

// ---- Costs

gpemu_status gpemu_cost_model_create(const char* model, const char* gpu, const char* precision,
                                     gpemu_cost_model** cost_model) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_cost_model_create", model, gpu, cost_model));
    GPEMU_ASSIGN(const gpemu::profile::Database database, gpemu::profile::Database::open());
    GPEMU_ASSIGN(auto created, gpemu::cost::StepCostModel::create(
                                   database, model, gpu, precision != nullptr ? precision : ""));
    *cost_model = new gpemu_cost_model{std::move(created)};
    return {};
  });
}

void gpemu_cost_model_destroy(gpemu_cost_model* cost_model) {
  delete cost_model;
}

gpemu_status gpemu_cost_model_step(const gpemu_cost_model* cost_model, int32_t batch,
                                   gpemu_step_cost* cost) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_cost_model_step", cost_model, cost));
    GPEMU_ASSIGN(const gpemu::cost::StepCost step, cost_model->model.step(batch));
    const gpemu_step_cost filled{.struct_size = 0,
                                 .forward = gpemu::to_c(step.forward),
                                 .backward_optimizer = gpemu::to_c(step.backward_optimizer),
                                 .copy_pageable = gpemu::to_c(step.copy_pageable),
                                 .copy_pinned = gpemu::to_c(step.copy_pinned),
                                 .persistent_bytes = step.memory.persistent,
                                 .peak_bytes = step.memory.peak,
                                 .reserved_bytes = step.memory.reserved};
    return gpemu::fill(cost, filled, "gpemu_cost_model_step");
  });
}

gpemu_status gpemu_cost_model_largest_batch(const gpemu_cost_model* cost_model, int32_t* batch) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_cost_model_largest_batch", cost_model, batch));
    *batch = cost_model->model.largest_batch();
    return {};
  });
}

// ---- The profile database

namespace gpemu {
namespace {

gpemu_gpu_info to_c(const profile::GpuSpec& spec) {
  gpemu_gpu_info info{};
  copy_text(info.name, spec.name);
  copy_text(info.product_name, spec.product_name);
  copy_text(info.architecture, spec.architecture);
  info.compute_capability_major = spec.compute_capability_major;
  info.compute_capability_minor = spec.compute_capability_minor;
  info.multiprocessors = spec.multiprocessors;
  info.memory_bytes = spec.memory_bytes;
  info.memory_bandwidth_bytes_per_s = spec.memory_bandwidth_bytes_per_s;
  info.fp32_flops = spec.fp32_flops;
  info.pinned_copy_bytes_per_s = spec.pinned_copy_bytes_per_s;
  return info;
}

gpemu_model_info to_c(const profile::ModelInfo& model) {
  gpemu_model_info info{};
  copy_text(info.name, model.name);
  info.parameters = model.parameters;
  std::ranges::copy(model.input_shape, info.input_shape);
  return info;
}

Result<std::string> name_at(const std::vector<std::string>& names, std::int32_t index) {
  if (index >= 0 && static_cast<std::size_t>(index) < names.size()) {
    return names[static_cast<std::size_t>(index)];
  }
  return fail(ErrorCode::kNotFound, "there is no number {}: the database has {}", index,
              names.size());
}

}  // namespace
}  // namespace gpemu

gpemu_status gpemu_database_open(const char* file, gpemu_database** database) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_database_open", database));
    gpemu::profile::Database::Paths paths = gpemu::profile::Database::default_paths();
    if (file != nullptr) paths = {.installed = file, .user = {}};
    GPEMU_ASSIGN(auto opened, gpemu::profile::Database::open(paths));
    *database = new gpemu_database{.mutex = {}, .database = std::move(opened)};
    return {};
  });
}

void gpemu_database_close(gpemu_database* database) {
  delete database;
}

gpemu_status gpemu_database_gpu_count(gpemu_database* database, int32_t* count) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_database_gpu_count", database, count));
    const std::lock_guard lock(database->mutex);
    GPEMU_ASSIGN(const auto names, database->database.gpu_names());
    *count = static_cast<int32_t>(names.size());
    return {};
  });
}

gpemu_status gpemu_database_gpu(gpemu_database* database, int32_t index, gpemu_gpu_info* info) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_database_gpu", database, info));
    const std::lock_guard lock(database->mutex);
    GPEMU_ASSIGN(const auto names, database->database.gpu_names());
    GPEMU_ASSIGN(const std::string name, gpemu::name_at(names, index));
    GPEMU_ASSIGN(const auto spec, database->database.gpu(name));
    return gpemu::fill(info, gpemu::to_c(spec), "gpemu_database_gpu");
  });
}

gpemu_status gpemu_database_find_gpu(gpemu_database* database, const char* name,
                                     gpemu_gpu_info* info) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_database_find_gpu", database, name, info));
    const std::lock_guard lock(database->mutex);
    GPEMU_ASSIGN(const auto spec, database->database.gpu(name));
    return gpemu::fill(info, gpemu::to_c(spec), "gpemu_database_find_gpu");
  });
}

gpemu_status gpemu_database_model_count(gpemu_database* database, int32_t* count) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_database_model_count", database, count));
    const std::lock_guard lock(database->mutex);
    GPEMU_ASSIGN(const auto names, database->database.model_names());
    *count = static_cast<int32_t>(names.size());
    return {};
  });
}

gpemu_status gpemu_database_model(gpemu_database* database, int32_t index, gpemu_model_info* info) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_database_model", database, info));
    const std::lock_guard lock(database->mutex);
    GPEMU_ASSIGN(const auto names, database->database.model_names());
    GPEMU_ASSIGN(const std::string name, gpemu::name_at(names, index));
    GPEMU_ASSIGN(const auto model, database->database.model(name));
    return gpemu::fill(info, gpemu::to_c(model), "gpemu_database_model");
  });
}

gpemu_status gpemu_database_find_model(gpemu_database* database, const char* name,
                                       gpemu_model_info* info) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_database_find_model", database, name, info));
    const std::lock_guard lock(database->mutex);
    GPEMU_ASSIGN(const auto model, database->database.model(name));
    return gpemu::fill(info, gpemu::to_c(model), "gpemu_database_find_model");
  });
}

gpemu_status gpemu_database_cost_model(gpemu_database* database, const char* model, const char* gpu,
                                       const char* precision, gpemu_cost_model** cost_model) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_database_cost_model", database, model, gpu, cost_model));
    const std::lock_guard lock(database->mutex);
    GPEMU_ASSIGN(auto created,
                 gpemu::cost::StepCostModel::create(database->database, model, gpu,
                                                    precision != nullptr ? precision : ""));
    *cost_model = new gpemu_cost_model{std::move(created)};
    return {};
  });
}
