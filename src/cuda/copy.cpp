// SPDX-License-Identifier: Apache-2.0
#include "copy.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "gpemu/base/mutex.hpp"
#include "gpemu/cost/copy_cost.hpp"
#include "gpemu/kernels/described_operation.hpp"
#include "gpemu/launch/prices.hpp"
#include "gpemu/memory/managed.hpp"
#include "gpemu/memory/memory_content.hpp"
#include "gpemu/process/attach.hpp"
#include "gpemu/process/faults.hpp"
#include "gpemu/process/peer.hpp"
#include "gpemu/process/recorder.hpp"
#include "gpemu/ranks/link_traffic.hpp"
#include "gpemu/streams/host_functions.hpp"
#include "gpemu/streams/mover.hpp"
#include "gpemu/streams/waits.hpp"

#include "copy_rule.hpp"
#include "stream.hpp"

namespace gpemu::cuda {
namespace {

/// The mover does asynchronous copies from this size on: waking its thread takes the host some 10
/// us, in which the host itself copies less than this. --drop-data drops copies from pinned memory
/// from this size on: batches of inputs are larger; sizes, indices and labels are smaller.
constexpr Bytes kLargeCopy = kMiB;

/// Each row with a gap behind it may be a range of the map of contents, which takes some 100 bytes.
/// Of more rows, the gaps become content of the pages as well.
constexpr std::uint64_t kMostRanges = 64 * 1024;

/// Makes rows without gaps a single one, and planes without gaps rows.
gpemu_cuda_copy joined(gpemu_cuda_copy copy) {
  const auto join = [](std::uint64_t& inner, std::uint64_t& outer, Bytes to_pitch, Bytes from_pitch,
                       Bytes size) {
    if (outer == 1 || to_pitch != size || from_pitch != size) return false;
    inner *= outer;
    outer = 1;
    return true;
  };
  const bool is_flat =
      copy.height == 1 || join(copy.width_bytes, copy.height, copy.destination_pitch,
                               copy.source_pitch, copy.width_bytes);
  if (is_flat) {
    join(copy.width_bytes, copy.depth, copy.destination_plane_pitch, copy.source_plane_pitch,
         copy.width_bytes);
  }
  return copy;
}

/// Has the pages of a range hold all of its content, so that rows may be written without a look at
/// each. What is not known of it counts as read.
void hold_in_pages(std::uint64_t start, Bytes bytes) {
  memory::Memory& state = memory::memory();
  memory::UnknownParts unknown;
  state.stale.give_back(start, bytes);
  memory::settle(state.contents, start, bytes, unknown);
  memory::record_shared(unknown);
}

/// Returns the bytes from the first to the last on one side of a copy, or nothing beyond 64 bits.
/// Requires: no size is 0.
std::optional<Bytes> extent_of(const gpemu_cuda_copy& copy, Bytes pitch, Bytes plane_pitch) {
  Bytes rows = 0, planes = 0, extent = 0;
  if (__builtin_mul_overflow(copy.height - 1, pitch, &rows) ||
      __builtin_mul_overflow(copy.depth - 1, plane_pitch, &planes) ||
      __builtin_add_overflow(rows, copy.width_bytes, &rows) ||
      __builtin_add_overflow(rows, planes, &extent) ||
      (copy.height > 1 && pitch < copy.width_bytes) || (copy.depth > 1 && plane_pitch < rows)) {
    return std::nullopt;
  }
  return extent;
}

/// A copy of content, with a description of both sides.
struct Movement {
  gpemu_cuda_copy copy{};
  memory::Side to, from;
  Bytes bytes = 0;
  std::array<kernels::Access, 2> accesses{};
  bool keep = true;          ///< else the device's memory reads as zeros from then on.
  streams::HostCalls calls;  ///< host functions that must return first.

  void run() const;
};

void Movement::run() const {
  if (!keep) return memory::drop(copy.destination, copy.width_bytes, memory::Content::kNotKept);
  const gpemu_cuda_copy rows = joined(copy);
  const bool many = !to.shared && rows.height * rows.depth > kMostRanges;
  if (many) hold_in_pages(accesses[0].start, accesses[0].bytes);
  for (std::uint64_t z = 0; z < rows.depth; ++z) {
    for (std::uint64_t y = 0; y < rows.height; ++y) {
      const std::uint64_t target =
          rows.destination + z * rows.destination_plane_pitch + y * rows.destination_pitch;
      const std::uint64_t source =
          rows.source + z * rows.source_plane_pitch + y * rows.source_pitch;
      many ? memory::read_row(target, source, rows.width_bytes, from.shared)
           : memory::copy_row(target, source, rows.width_bytes, to, from);
    }
  }
}

/// Moves a copy's content now, because the caller waits for the copy anyway.
void move_now(const Movement& movement) {
  streams::wait_for_moves_on(movement.accesses);
  movement.run();
}

/// Lets the mover do it before the copy's end, after the host functions before it have returned.
void move_beside(Movement&& movement, const gpemu_cuda_stream& stream, bool staged) {
  const device::Moment end = stream.stream->last_end();
  streams::Mover::Job job{.accesses = {movement.accesses.begin(), movement.accesses.end()},
                          .end = end,
                          .lane = movement.to.on_device() ? streams::Mover::Lane::kToDevice
                                                          : streams::Mover::Lane::kToHost};
  if (!movement.calls.empty()) {
    job.may_begin = [calls = std::move(movement.calls)] { return streams::have_returned(calls); };
  }
  std::vector<std::byte> data;
  if (staged) {
    const auto* const source = reinterpret_cast<const std::byte*>(movement.copy.source);
    data.assign(source, source + movement.bytes);
    job.accesses.pop_back();
  }
  job.work = [movement = std::move(movement), end, data = std::move(data)]() mutable {
    const auto start = std::chrono::steady_clock::now();
    if (!data.empty()) movement.copy.source = reinterpret_cast<std::uint64_t>(data.data());
    movement.run();
    if (movement.bytes < kLargeCopy) return;
    process::record_move(movement.bytes, std::chrono::steady_clock::now() - start, end.time());
  };
  streams::mover().add(std::move(job));
}

/// Moves it in order: at once, unless it must wait for something. With `staged`, the source is read
/// before this returns.
void move_in_order(Movement&& movement, const gpemu_cuda_stream& stream, bool staged) {
  const bool waits = !movement.calls.empty() ||
                     (streams::mover().busy() && streams::mover().overlaps_any(movement.accesses));
  if (!waits) return movement.run();
  if (staged && (movement.copy.height > 1 || movement.copy.depth > 1)) return move_now(movement);
  move_beside(std::move(movement), stream, staged);
}

/// Waits for the earlier work of a stream.
void wait_for_stream(gpemu_cuda_stream& stream) {
  streams::wait_until(stream.stream->tail(), stream.device);
  if (!process::is_lost(*stream.device)) streams::wait_for_host_functions(stream);
}

bool fits_kind(gpemu_cuda_copy_kind kind, const memory::Side& to, const memory::Side& from) {
  // Managed memory may be on either side.
  const auto host = [](const memory::Side& side) { return !side.on_device(); };
  const auto device = [](const memory::Side& side) {
    return side.on_device() || side.kind == GPEMU_CUDA_MEMORY_MANAGED ||
           side.kind == GPEMU_CUDA_MEMORY_HOST;
  };
  switch (kind) {
    case GPEMU_CUDA_COPY_HOST_TO_HOST:
      return host(to) && host(from);
    case GPEMU_CUDA_COPY_HOST_TO_DEVICE:
      return device(to) && host(from);
    case GPEMU_CUDA_COPY_DEVICE_TO_HOST:
      return host(to) && device(from);
    case GPEMU_CUDA_COPY_DEVICE_TO_DEVICE:
      return device(to) && device(from);
    case GPEMU_CUDA_COPY_DEFAULT:
      return true;
  }
  return false;
}

/// Returns how long a copy takes beside those of other GPUs. `links`: that it shares with them.
/// `alone`: with the links to itself. A link serves the copies on it in turn. It is not known which
/// copies others will queue later; those do not move this one's end.
Duration beside_others(const gpemu_cuda_stream& stream,
                       const std::vector<topology::SharedLink>& links, Bytes bytes,
                       Duration alone) {
  if (links.empty()) return alone;
  const TimePoint start = std::max(process::clock().now(), stream.stream->tail().time());
  Duration longest = alone;
  for (const topology::SharedLink& link : links) {
    const auto engine =
        link.upwards ? device::Engine::kCopyDeviceToHost : device::Engine::kCopyHostToDevice;
    const Duration own = from_seconds(static_cast<double>(bytes) / link.bytes_per_s);
    Duration on_link = own;
    for (const int other : link.others) {
      on_link += process::process().node->work_after(other, engine, start, own);
    }
    longest = std::max(longest, on_link);
  }
  return longest;
}

/// Queues a copy between host and device. `link`: its rate there, in bytes/s.
device::QueuedWork queue_over_link(gpemu_cuda_stream& stream, Bytes bytes, double link,
                                   device::Engine engine) {
  const process::DeviceState& device = *stream.device;
  const bool to_device = engine == device::Engine::kCopyHostToDevice;
  const Duration alone =
      cost::copy_cost(device.spec).latency +
      from_seconds(static_cast<double>(bytes) /
                   (link * process::link_share(device, -1, topology::LinkClass::kPciePeer)));
  const auto& links = to_device ? device.links_from_host : device.links_to_host;
  return enqueue(stream, engine, bytes, beside_others(stream, links, bytes, alone),
                 to_device ? "copy host to device" : "copy device to host");
}

/// Not inlined: in its caller, g++ assumes that it is rarely used and makes it small and slow.
[[gnu::noinline]] device::QueuedWork queue_copy(gpemu_cuda_stream& stream, const memory::Side& to,
                                                const memory::Side& from, Bytes bytes) {
  const process::DeviceState& device = *stream.device;
  const bool pinned =
      to.kind != GPEMU_CUDA_MEMORY_UNREGISTERED && from.kind != GPEMU_CUDA_MEMORY_UNREGISTERED;
  const double link = device.spec.pinned_copy_bytes_per_s *
                      (pinned ? 1.0 : cost::copy_cost(device.spec).pageable_share);
  if (to.on_device() && from.on_device() && to.device == from.device) {
    const kernels::DescribedOperation described{
        .operation = {.struct_size = sizeof(gpemu_operation),
                      .kind = GPEMU_OPERATION_COPY_ON_DEVICE,
                      .shape = {static_cast<std::int64_t>(bytes)},
                      .name = "copy on device"},
        .operation_class = kernels::OperationClass::kCopy};
    return enqueue(stream, device::Engine::kCompute, bytes,
                   launch::price_on(device, described).estimate.time, described.operation.name);
  }
  if (to.on_device() && from.on_device()) {
    const process::DeviceState& target = process::device_at(to.device);
    const process::DeviceState& source = process::device_at(from.device);
    const topology::PeerCopy copy = process::peer_copy(target, source);
    const double rate = copy.rate * process::link_share(target, source.index,
                                                        process::peer_path(target, source).link);
    const Duration alone = copy.latency + from_seconds(static_cast<double>(bytes) / rate);
    ranks::count_peer_copy(target, source, bytes);
    return enqueue_peer_copy(
        stream, bytes, beside_others(stream, process::links_between(target, source), bytes, alone));
  }
  return to.on_device() ? queue_over_link(stream, bytes, link, device::Engine::kCopyHostToDevice)
                        : queue_over_link(stream, bytes, link, device::Engine::kCopyDeviceToHost);
}

/// Errors: NVLINK_UNCORRECTABLE if a copy crosses a broken link.
process::Status check_link_between(const memory::Side& to, const memory::Side& from) {
  if (!to.on_device() || !from.on_device() || to.device == from.device) return GPEMU_CUDA_SUCCESS;
  process::DeviceState& target = process::device_at(to.device);
  const process::DeviceState& source = process::device_at(from.device);
  if (!target.has_faults ||
      process::peer_path(target, source).link != topology::LinkClass::kNvlink) {
    return GPEMU_CUDA_SUCCESS;
  }
  return process::check_nvlink(target, source.index);
}

/// Checks that a range lies in memory that a device can use.
process::Status check_range(std::uint64_t address, Bytes bytes, memory::Side* found) {
  const memory::Memory& state = memory::memory();
  const Lock lock(state.mutex);
  const memory::Side side(state, address, bytes);
  *found = side;
  return side.kind != GPEMU_CUDA_MEMORY_UNREGISTERED && side.inside
             ? GPEMU_CUDA_SUCCESS
             : GPEMU_CUDA_ERROR_INVALID_VALUE;
}

void set_rows(gpemu_cuda_node_parameters node, Bytes width, const memory::Side& side) {
  if (node.set_height > 1 && node.set_pitch == width) {
    node.set_count *= node.set_height;
    width *= node.set_height;
    node.set_height = 1;
  }
  if (node.set_height > kMostRanges && !side.shared) {
    const Bytes extent = (node.set_height - 1) * node.set_pitch + width;
    const memory::ContentMap::Part part = memory::memory().contents.part(node.set_address, extent);
    if (node.set_value == 0 && part.content == memory::Content::kZeros && part.bytes == extent)
      return;
    hold_in_pages(node.set_address, extent);
    for (std::uint64_t row = 0; row < node.set_height; ++row) {
      memory::fill(node.set_address + row * node.set_pitch, &node.set_value, node.set_element_bytes,
                   node.set_count);
    }
    return;
  }
  for (std::uint64_t row = 0; row < node.set_height; ++row) {
    const std::uint64_t start = node.set_address + row * node.set_pitch;
    if (node.set_value == 0 && !side.shared) {
      memory::drop(start, width, memory::Content::kZeros);
      continue;
    }
    // Locked pages of the host stay; they may belong to a file of the program.
    if (node.set_value == 0 && side.kind != GPEMU_CUDA_MEMORY_HOST) {
      memory::clear_pages(start, width);
      continue;
    }
    if (!side.shared) memory::keep(start, width);
    memory::fill(start, &node.set_value, node.set_element_bytes, node.set_count);
  }
}

/// Finds what a copy moves between which memory.
process::Status describe_movement(const gpemu_cuda_copy& copy, Movement* movement) {
  const auto to_extent = extent_of(copy, copy.destination_pitch, copy.destination_plane_pitch);
  const auto from_extent = extent_of(copy, copy.source_pitch, copy.source_plane_pitch);
  Bytes bytes = 0;
  if (!to_extent || !from_extent || __builtin_mul_overflow(copy.width_bytes, copy.height, &bytes) ||
      __builtin_mul_overflow(bytes, copy.depth, &bytes)) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  if (copy.destination == 0 || copy.source == 0) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  const memory::Memory& state = memory::memory();
  Lock lock(state.mutex);
  const memory::Side to(state, copy.destination, *to_extent);
  const memory::Side from(state, copy.source, *from_extent);
  lock.unlock();
  if (!to.inside || !from.inside) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  if (!fits_kind(copy.kind, to, from)) return GPEMU_CUDA_ERROR_INVALID_MEMCPY_DIRECTION;
  const bool plain = copy.height == 1 && copy.depth == 1;
  const bool dropped = bytes >= kLargeCopy && from.kind == GPEMU_CUDA_MEMORY_HOST &&
                       to.on_device() && !to.shared && plain &&
                       process::process().settings->drop_data;
  *movement = {
      .copy = copy,
      .to = to,
      .from = from,
      .bytes = bytes,
      .accesses = {kernels::Access{.start = copy.destination, .bytes = *to_extent, .writes = true},
                   kernels::Access{.start = copy.source, .bytes = *from_extent}},
      .keep = !dropped,
      .calls = {}};
  return GPEMU_CUDA_SUCCESS;
}

/// The host copies within its memory in its own time.
void move_within_host(Movement movement, gpemu_cuda_stream& stream, CopyWait wait) {
  if (wait == CopyWait::kEarlierWork) return move_now(movement);
  streams::copy_host_calls(stream, movement.calls);
  move_in_order(std::move(movement), stream, false);
}

/// Moves content, beside the program if it is much.
void move_queued(Movement movement, gpemu_cuda_stream& stream, CopyRoute route, bool staged) {
  // Other processes write shared memory, so the order of copies there is not known.
  const bool beside =
      movement.bytes >= kLargeCopy && movement.keep && !movement.to.is_shared() &&
      !movement.from.is_shared() &&
      (route == CopyRoute::kPinned || (route == CopyRoute::kBetweenDevices &&
                                       !memory::is_unkept(movement.copy.source, movement.bytes)));
  beside ? move_beside(std::move(movement), stream, false)
         : move_in_order(std::move(movement), stream, staged);
}

/// Moves content while the host waits for the end of the copy.
process::Status move_and_wait(const Movement& movement, gpemu_cuda_stream& stream,
                              const device::QueuedWork& queued, bool blocking) {
  const device::Moment end = stream.stream->last_end();
  // The host copies while the device does, unless it must wait for a host function. Until that
  // has returned, it does not matter whether the copy starts later than expected.
  if (!streams::have_returned(movement.calls)) {
    streams::wait_until(device::Moment(queued.expected.start), stream.device);
    GPEMU_CUDA_TRY(process::check_device(*stream.device));
    streams::wait_for_host_functions(movement.calls);
  }
  move_now(movement);
  process::record_late_wait(process::clock().now() - end.time());
  streams::wait_until(end, stream.device);
  GPEMU_CUDA_TRY(process::check_device(*stream.device));
  if (blocking) streams::wait_for_host_functions(stream);
  return GPEMU_CUDA_SUCCESS;
}

}  // namespace

void queue_migration(gpemu_cuda_stream& stream, Bytes bytes, bool to_device) {
  static_cast<void>(queue_over_link(
      stream, bytes, stream.device->spec.pinned_copy_bytes_per_s,
      to_device ? device::Engine::kCopyHostToDevice : device::Engine::kCopyDeviceToHost));
}

process::Status run_copy(const gpemu_cuda_copy& copy, gpemu_cuda_stream& stream, bool blocking) {
  if (copy.width_bytes == 0 || copy.height == 0 || copy.depth == 0) return GPEMU_CUDA_SUCCESS;
  Movement movement;
  GPEMU_CUDA_TRY(describe_movement(copy, &movement));
  const memory::Side to = movement.to, from = movement.from;
  const CopyRoute route = copy_route(to.kind, from.kind, movement.bytes);
  const CopyRule rule = copy_rule(route, stream.runs_graph ? CopyCall::kGraph
                                         : blocking        ? CopyCall::kBlocking
                                                           : CopyCall::kAsynchronous);
  if (rule.wait == CopyWait::kEarlierWork) {
    wait_for_stream(stream);
    GPEMU_CUDA_TRY(process::check_device(*stream.device));
  }
  if (route == CopyRoute::kWithinHost) {
    move_within_host(std::move(movement), stream, rule.wait);
    return GPEMU_CUDA_SUCCESS;
  }
  GPEMU_CUDA_TRY(check_link_between(to, from));
  for (const auto& [side, access] :
       {std::pair(to, movement.accesses[0]), std::pair(from, movement.accesses[1])}) {
    if (side.kind == GPEMU_CUDA_MEMORY_MANAGED) {
      memory::use_managed(access.start, access.bytes, *stream.device);
    }
  }
  const device::QueuedWork queued = queue_copy(stream, to, from, movement.bytes);
  streams::copy_host_calls(stream, movement.calls);
  if (rule.wait == CopyWait::kEnd) return move_and_wait(movement, stream, queued, blocking);
  move_queued(std::move(movement), stream, route, rule.staged);
  return GPEMU_CUDA_SUCCESS;
}

process::Status run_set(const gpemu_cuda_node_parameters& node, gpemu_cuda_stream& stream) {
  Bytes width = 0, extent = 0;
  if (node.set_count == 0 || node.set_height == 0) return GPEMU_CUDA_SUCCESS;
  if (__builtin_mul_overflow(node.set_count, node.set_element_bytes, &width) ||
      __builtin_mul_overflow(node.set_height - 1, node.set_pitch, &extent) ||
      __builtin_add_overflow(extent, width, &extent) ||
      node.set_address % node.set_element_bytes != 0 ||
      (node.set_height > 1 && node.set_pitch < width)) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  const memory::Memory& state = memory::memory();
  Lock lock(state.mutex);
  const memory::Side side(state, node.set_address, extent);
  lock.unlock();
  if (side.kind == GPEMU_CUDA_MEMORY_UNREGISTERED || !side.inside) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  const kernels::DescribedOperation described{
      .operation = {.struct_size = sizeof(gpemu_operation),
                    .kind = GPEMU_OPERATION_SET,
                    .shape = {static_cast<std::int64_t>(width * node.set_height)},
                    .name = "set memory"},
      .operation_class = kernels::OperationClass::kSet};
  queue_operation(launch::price_on(*stream.device, described), described.operation, stream);
  if (side.kind == GPEMU_CUDA_MEMORY_MANAGED)
    memory::use_managed(node.set_address, extent, *stream.device);
  const std::array written{
      kernels::Access{.start = node.set_address, .bytes = extent, .writes = true}};
  auto set = [node, width, side] { set_rows(node, width, side); };
  streams::HostCalls calls;
  // Host functions read and write shared memory.
  if (side.shared) streams::copy_host_calls(stream, calls);
  if (calls.empty()) {
    streams::mover().in_order(written, std::move(set));
  } else {
    streams::mover().add(
        {.accesses = {written.begin(), written.end()},
         .end = stream.stream->last_end(),
         .work = std::move(set),
         .may_begin = [calls = std::move(calls)] { return streams::have_returned(calls); }});
  }
  return GPEMU_CUDA_SUCCESS;
}

process::Status poke(std::uint64_t address, const void* data, Bytes bytes) {
  if (bytes == 0) return GPEMU_CUDA_SUCCESS;
  memory::Side side;
  GPEMU_CUDA_TRY(check_range(address, bytes, &side));
  const std::array written{kernels::Access{.start = address, .bytes = bytes, .writes = true}};
  streams::wait_for_moves_on(written);
  if (!side.shared) memory::keep(address, bytes);
  std::memcpy(reinterpret_cast<void*>(address), data, bytes);
  return GPEMU_CUDA_SUCCESS;
}

process::Status peek(std::uint64_t address, void* data, Bytes bytes) {
  memory::Side side;
  GPEMU_CUDA_TRY(check_range(address, bytes, &side));
  const std::array read{kernels::Access{.start = address, .bytes = bytes}};
  streams::wait_for_moves_on(read);
  memory::read_row(reinterpret_cast<std::uint64_t>(data), address, bytes, side.shared);
  return GPEMU_CUDA_SUCCESS;
}

}  // namespace gpemu::cuda
