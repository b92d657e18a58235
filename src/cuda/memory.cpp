// SPDX-License-Identifier: Apache-2.0
#include "memory.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <mutex>
#include <span>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>

#include "capture.hpp"
#include "host_functions.hpp"
#include "log.hpp"
#include "memory_state.hpp"
#include "mover.hpp"
#include "recorder.hpp"
#include "stream.hpp"

namespace gpemu::cuda {
namespace {

/// Allocations below this size share a page of the GPU's memory; larger ones take whole pages.
/// Source: cudaMalloc places small allocations together, aligned to 512 bytes.
constexpr Bytes kSmall = kMiB;
constexpr Bytes kAlignment = 512;

/// How much larger than the memory the range of its addresses is, so that freed ranges of unequal
/// sizes do not run it out.
constexpr Bytes kAddressSpaceFactor = 8;

/// Time from a copy's start to its first byte. Source: 5 to 10 us is commonly measured for small
/// cudaMemcpy calls over PCIe.
constexpr Duration kCopyLatency = std::chrono::microseconds(6);

/// A pageable copy as a share of the pinned one's rate. Source: GPEmu (VLDB 2025) measured 4 to 6
/// GB/s where pinned memory gave 12.
constexpr double kPageableShare = 0.42;

/// Up to so many bytes a pageable copy to the device only waits for its staging. Source: CUDA
/// Runtime API, "API synchronization behavior".
constexpr Bytes kStagedBytes = 64 * kKiB;

/// Where at least so many bytes are no longer needed, the host's pages stay for the next copy.
constexpr Bytes kStaleBytes = 64 * kKiB;

/// Asynchronous copies of at least so many bytes are left to the mover: to wake its thread takes
/// the host some 10 us, in which it copies less than this itself. Batches of inputs are larger, so
/// that --drop-data drops what comes from pinned memory from this size on; sizes, indices and
/// labels are smaller.
constexpr Bytes kLargeCopy = kMiB;

/// Whether `gpemu run --drop-data` has large copies from pinned memory not kept.
bool drops_data() {
  return std::getenv("GPEMU_DROP_DATA") != nullptr;
}

/// Requires: the lock.
AddressSpace* space_of(Memory& state, const DeviceState& device) {
  AddressSpace& space = state.spaces[device.ordinal];
  if (space.base != 0) return &space;
  const Bytes size = round_up(device.info.total_memory * kAddressSpaceFactor, kPage);
  // A page more, so that the first whole one can be chosen.
  void* const range =
      ::mmap(nullptr, size + kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) return nullptr;
  const int descriptor = make_sparse_file(size);
  void* const base =
      reinterpret_cast<void*>(round_up(reinterpret_cast<std::uint64_t>(range), kPage));
  if (descriptor < 0 || ::mmap(base, size, PROT_READ | PROT_WRITE,
                               MAP_SHARED | MAP_NORESERVE | MAP_FIXED, descriptor, 0) != base) {
    ::munmap(range, size + kPage);
    if (descriptor >= 0) ::close(descriptor);
    return nullptr;
  }
  // A single written byte must not take a huge page.
  ::madvise(base, size, MADV_NOHUGEPAGE);
  ::madvise(base, size, MADV_DONTDUMP);
  space.descriptor = descriptor;
  space.base = reinterpret_cast<std::uint64_t>(base);
  space.size = size;
  space.free.emplace(space.base, size);
  return &space;
}

/// Writes elements of one value side by side. Requires: `count` is not 0.
void fill(std::uint64_t address, const void* value, Bytes element_bytes, Bytes count) {
  auto* const start = reinterpret_cast<std::byte*>(address);
  if (element_bytes == 1) {
    std::memset(start, *static_cast<const unsigned char*>(value), count);
    return;
  }
  const Bytes bytes = element_bytes * count;
  std::memcpy(start, value, element_bytes);
  // What is written already is copied behind itself, until no more than it is left.
  for (Bytes done = element_bytes; done < bytes; done += std::min(done, bytes - done)) {
    std::memcpy(start + done, start, std::min(done, bytes - done));
  }
}

/// Says that a range is what its pages hold, which are about to be written.
void keep(std::uint64_t address, Bytes bytes) {
  memory().stale.remove(address, bytes);
  memory().contents.assign(address, bytes, Content::kKept);
}

/// Makes a range read as zeros; `content` says why. Only what is kept costs anything.
void drop(std::uint64_t address, Bytes bytes, Content content, WriterId writer = 0) {
  Memory& state = memory();
  bool changes = false;
  for (Bytes done = 0; done < bytes;) {
    const ContentMap::Part part = state.contents.assigned_part(address + done, bytes - done);
    if (in_pages(part.content) && part.bytes < kStaleBytes) {
      clear_pages(address + done, part.bytes);
    } else if (in_pages(part.content)) {
      state.stale.add(address + done, part.bytes);
    }
    changes |= part.content != content || part.writer != writer;
    done += part.bytes;
  }
  if (changes) state.contents.assign(address, bytes, content, writer);
}

Bytes charged(Bytes bytes) {
  return bytes < kSmall ? round_up(bytes, kAlignment) : round_up(bytes, kPage);
}

/// Whether a range reads as zeros throughout, so that copying it moves nothing.
bool is_unkept(std::uint64_t address, Bytes bytes) {
  const ContentMap::Part part = memory().contents.part(address, bytes);
  return !in_pages(part.content) && part.bytes == bytes;
}

/// What one side of a copy is.
struct Side {
  Side() = default;
  /// Describes a range of addresses. Requires: the lock.
  Side(const Memory& state, std::uint64_t address, Bytes extent);

  gpemu_cuda_memory_kind kind = GPEMU_CUDA_MEMORY_UNREGISTERED;
  int device = -1;
  bool inside = true;  ///< whether the whole range lies in the block.
  Bytes covered = 0;   ///< how much of the range lies in memory from its start, if it begins there.
  bool shared = true;  ///< whether its content must be looked for in the pages.
  [[nodiscard]] bool on_device() const { return kind == GPEMU_CUDA_MEMORY_DEVICE; }
  /// Whether all of it is a device's memory, or the host's locked one.
  [[nodiscard]] bool is_read_by_kernels() const {
    return inside && (on_device() || kind == GPEMU_CUDA_MEMORY_HOST);
  }
  /// Whether it begins in memory that kernels write: a device's, or managed memory.
  [[nodiscard]] bool is_written_by_kernels() const {
    return on_device() || kind == GPEMU_CUDA_MEMORY_MANAGED;
  }
  /// Whether the host or other processes may write it at any time.
  [[nodiscard]] bool is_shared() const {
    return kind == GPEMU_CUDA_MEMORY_MANAGED || (on_device() && shared);
  }

 private:
  void describe_in(const Memory& state, const std::pair<const std::uint64_t, Block>& first,
                   std::uint64_t address, Bytes extent);
  void describe_outside(const Memory& state, std::uint64_t address);
};

Side::Side(const Memory& state, std::uint64_t address, Bytes extent) {
  if (const auto* const block = block_at(state, address)) {
    describe_in(state, *block, address, extent);
  } else {
    describe_outside(state, address);
  }
}

/// For a range that begins in a block and lies in it, or goes on in mapped memory that follows
/// without a gap.
void Side::describe_in(const Memory& state, const std::pair<const std::uint64_t, Block>& first,
                       std::uint64_t address, Bytes extent) {
  const auto usable = [](const Block& block) {
    return block.handle == 0 ||
           std::ranges::any_of(block.access, [](const auto& entry) { return entry.second != 0; });
  };
  kind = first.second.kind;
  device = first.second.device;
  shared = first.second.shared || kind != GPEMU_CUDA_MEMORY_DEVICE;
  inside = usable(first.second);
  if (!inside) return;
  covered = first.second.bytes - (address - first.first);
  std::uint64_t end = first.first + first.second.bytes;
  while (covered < extent && first.second.handle != 0) {
    const auto next = state.blocks.find(end);
    if (next == state.blocks.end() || next->second.handle == 0 || !usable(next->second)) break;
    covered += next->second.bytes;
    end += next->second.bytes;
    shared |= next->second.shared;
  }
  inside = extent <= covered;
}

/// Addresses of devices that no allocation covers are nobody's, all others the host's.
void Side::describe_outside(const Memory& state, std::uint64_t address) {
  const auto reserved = state.reservations.upper_bound(address);
  if (reserved != state.reservations.begin() &&
      address - std::prev(reserved)->first < std::prev(reserved)->second) {
    kind = GPEMU_CUDA_MEMORY_DEVICE;
    inside = false;
    return;
  }
  for (const auto& [ordinal, space] : state.spaces) {
    if (address - space.base < space.size) {
      kind = GPEMU_CUDA_MEMORY_DEVICE;
      device = ordinal;
      inside = false;
    }
  }
}

/// The bytes from a range's first to its last on one side, or nothing beyond 64 bits. Requires: no
/// size is 0.
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

/// Copies between devices' memory whose content is known; what is zeros stays so.
void move_row(std::uint64_t to, std::uint64_t from, Bytes bytes) {
  ContentMap& contents = memory().contents;
  if (contents.are_alike(to, from, bytes)) return;
  if (to - from < bytes || from - to < bytes) {
    // What is not kept must be zeros in the pages, too.
    memory().stale.give_back(from, bytes);
    keep(to, bytes);
    std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
    return;
  }
  for (Bytes done = 0; done < bytes;) {
    const ContentMap::Part part = contents.part(from + done, bytes - done);
    if (in_pages(part.content)) {
      keep(to + done, part.bytes);
      if (part.content != Content::kKept) {
        contents.assign(to + done, part.bytes, part.content, part.writer);
      }
      std::memcpy(reinterpret_cast<void*>(to + done), reinterpret_cast<const void*>(from + done),
                  part.bytes);
    } else {
      drop(to + done, part.bytes, part.content, part.writer);
    }
    done += part.bytes;
  }
}

/// Counts what the host reads of a part that is not what the program wrote.
void count_read(std::uint64_t address, const ContentMap::Part& part) {
  if (part.content == Content::kNotKept) record_not_kept(part.bytes);
  if (part.content == Content::kNotComputed || part.content == Content::kNotUpdated) {
    record_not_computed(address, part.bytes, part.writer);
  }
}

/// Copies from a device's memory to the host's, and counts what is not known. Pages that nobody
/// wrote are not touched.
void read_row(std::uint64_t to, std::uint64_t from, Bytes bytes, bool shared) {
  if (shared) {
    std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
    return;
  }
  for (Bytes done = 0; done < bytes;) {
    const ContentMap::Part part = memory().contents.part(from + done, bytes - done);
    if (in_pages(part.content)) {
      std::memcpy(reinterpret_cast<void*>(to + done), reinterpret_cast<const void*>(from + done),
                  part.bytes);
    } else {
      std::memset(reinterpret_cast<void*>(to + done), 0, part.bytes);
    }
    if (!is_known(part.content)) count_read(from + done, part);
    done += part.bytes;
  }
}

void copy_row(std::uint64_t to, std::uint64_t from, Bytes bytes, const Side& target,
              const Side& source) {
  if (!target.shared && !source.shared) return move_row(to, from, bytes);
  if (!target.shared) keep(to, bytes);
  read_row(to, from, bytes, source.shared);
}

/// A copy of content, with what its ends are.
struct Movement {
  gpemu_cuda_copy copy{};
  Side to, from;
  Bytes bytes = 0;
  std::array<Access, 2> accesses{};
  bool keep = true;  ///< else the device's memory reads as zeros from then on.
  HostCalls calls;   ///< which must have returned before.

  void run() const;
};

void Movement::run() const {
  if (!keep) return drop(copy.destination, copy.width_bytes, Content::kNotKept);
  for (std::uint64_t z = 0; z < copy.depth; ++z) {
    for (std::uint64_t y = 0; y < copy.height; ++y) {
      copy_row(copy.destination + z * copy.destination_plane_pitch + y * copy.destination_pitch,
               copy.source + z * copy.source_plane_pitch + y * copy.source_pitch, copy.width_bytes,
               to, from);
    }
  }
}

/// Blocks until no unfinished copy overlaps these. A host function would wait for itself.
void finish_moves_on(std::span<const Access> accesses) {
  if (!in_host_function()) mover().wait_for(accesses);
}

/// Does what a copy does to content now, where the caller waits for the copy anyhow.
void move_now(const Movement& movement) {
  finish_moves_on(movement.accesses);
  movement.run();
}

/// Has the mover do it until the copy's end, once the host functions before it have returned.
void move_beside(Movement&& movement, TimePoint end, bool staged) {
  Mover::Job job{.accesses = {movement.accesses.begin(), movement.accesses.end()},
                 .end = end,
                 .lane = movement.to.on_device() ? Mover::Lane::kToDevice : Mover::Lane::kToHost};
  if (!movement.calls.empty()) {
    job.may_begin = [calls = std::move(movement.calls)] { return have_returned(calls); };
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
    record_move(movement.bytes, std::chrono::steady_clock::now() - start, end);
  };
  mover().add(std::move(job));
}

/// Does it in order: at once, unless it must wait for something. With `staged`, the source is read
/// before this returns.
void move_in_order(Movement&& movement, TimePoint end, bool staged) {
  const bool waits =
      !movement.calls.empty() || (mover().busy() && mover().overlaps_any(movement.accesses));
  if (!waits) return movement.run();
  if (staged && (movement.copy.height > 1 || movement.copy.depth > 1)) return move_now(movement);
  move_beside(std::move(movement), end, staged);
}

bool fits_kind(gpemu_cuda_copy_kind kind, const Side& to, const Side& from) {
  // Managed memory may stand on either side.
  const auto host = [](const Side& side) { return !side.on_device(); };
  const auto device = [](const Side& side) {
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

Duration at_rate(Bytes bytes, double bytes_per_s) {
  return kCopyLatency + from_seconds(static_cast<double>(bytes) / bytes_per_s);
}

/// Apart from its caller, in which g++ takes it for rarely used and makes it small and slow.
[[gnu::noinline]] device::Interval queue_copy(gpemu_cuda_stream& stream, const Side& to,
                                              const Side& from, Bytes bytes) {
  const DeviceState& device = device_of(stream);
  const bool pinned =
      to.kind != GPEMU_CUDA_MEMORY_UNREGISTERED && from.kind != GPEMU_CUDA_MEMORY_UNREGISTERED;
  const double link = device.spec.pinned_copy_bytes_per_s * (pinned ? 1.0 : kPageableShare);
  if (to.on_device() && from.on_device() && to.device == from.device) {
    const gpemu_operation operation{.struct_size = sizeof(operation),
                                    .kind = GPEMU_OPERATION_COPY_ON_DEVICE,
                                    .shape = {static_cast<std::int64_t>(bytes)},
                                    .name = "copy on device"};
    return enqueue(stream, device::Engine::kCompute, bytes,
                   device.costs->price(operation).estimate.time, operation.name);
  }
  if (to.on_device() && from.on_device()) {
    const double rate = device.spec.nvlink_bytes_per_s.value_or(link);
    return enqueue(stream, device::Engine::kCopyDeviceToHost, bytes, at_rate(bytes, rate),
                   "copy to peer");
  }
  return to.on_device() ? enqueue(stream, device::Engine::kCopyHostToDevice, bytes,
                                  at_rate(bytes, link), "copy host to device")
                        : enqueue(stream, device::Engine::kCopyDeviceToHost, bytes,
                                  at_rate(bytes, link), "copy device to host");
}

Status allocate(Bytes bytes, gpemu_cuda_memory_kind kind, std::uint64_t* address) {
  DeviceState* device = nullptr;
  GPEMU_CUDA_TRY(current_device(&device));
  GPEMU_CUDA_TRY(check_unsafe_call());
  if (bytes == 0) {
    *address = 0;
    return GPEMU_CUDA_SUCCESS;
  }
  const Status status = allocate_on(*device, bytes, kind, address);
  if (status != GPEMU_CUDA_ERROR_OUT_OF_MEMORY || !reclaim_pooled(*device)) return status;
  return allocate_on(*device, bytes, kind, address);
}

}  // namespace

int make_sparse_file(Bytes bytes) {
  const int descriptor = ::memfd_create("gpemu-memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (descriptor < 0) return -1;
  if (::ftruncate(descriptor, static_cast<off_t>(bytes)) != 0 ||
      ::fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    ::close(descriptor);
    return -1;
  }
  return descriptor;
}

Memory& memory() {
  static auto* const instance = new Memory;
  return *instance;
}

const std::pair<const std::uint64_t, Block>* block_at(const Memory& state, std::uint64_t address) {
  auto found = state.blocks.upper_bound(address);
  if (found == state.blocks.begin()) return nullptr;
  --found;
  return address - found->first < found->second.bytes ? &*found : nullptr;
}

std::optional<std::uint64_t> take_range(AddressSpace& space, Bytes bytes) {
  for (auto range = space.free.begin(); range != space.free.end(); ++range) {
    if (range->second < bytes) continue;
    const std::uint64_t start = range->first;
    const Bytes rest = range->second - bytes;
    space.free.erase(range);
    if (rest > 0) space.free.emplace(start + bytes, rest);
    return start;
  }
  return std::nullopt;
}

void give_back_range(AddressSpace& space, std::uint64_t start, Bytes bytes) {
  auto next = space.free.lower_bound(start);
  if (next != space.free.end() && start + bytes == next->first) {
    bytes += next->second;
    next = space.free.erase(next);
  }
  if (next != space.free.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == start) {
      before->second += bytes;
      return;
    }
  }
  space.free.emplace(start, bytes);
}

void finish_moves(std::uint64_t address) {
  if (!mover().busy()) return;
  Bytes bytes = 0;
  {
    const Memory& state = memory();
    const std::lock_guard lock(state.mutex);
    const auto found = state.blocks.find(address);
    if (found == state.blocks.end()) return;
    bytes = found->second.bytes;
  }
  const std::array whole{Access{.start = address, .bytes = bytes, .writes = true}};
  finish_moves_on(whole);
}

Status free_block(std::uint64_t address, bool host) {
  finish_moves(address);
  Memory& state = memory();
  const std::lock_guard lock(state.mutex);
  const auto found = state.blocks.find(address);
  if (found == state.blocks.end()) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  Block& block = found->second;
  if (host) {
    if (!block.pinned) return GPEMU_CUDA_ERROR_INVALID_VALUE;
    state.blocks.erase(found);
    return GPEMU_CUDA_SUCCESS;
  }
  if (block.ledger == 0) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  AddressSpace& space = state.spaces[block.device];
  const Bytes bytes = charged(block.bytes);
  if (block.shared) {
    clear_pages(address, bytes);
    state.contents.assign(address, bytes, Content::kZeros);
  } else {
    drop(address, bytes, Content::kZeros);
    state.stale.give_back(address, bytes);
  }
  give_back_range(space, address, bytes);
  space.held -= bytes;
  record_allocation(block.device, address, -static_cast<std::int64_t>(block.bytes));
  const auto freed = device_at(block.device).device->free(block.ledger);
  GPEMU_CHECK(freed.has_value(), "the ledger knows what the address space does");
  state.blocks.erase(found);
  return GPEMU_CUDA_SUCCESS;
}

Status allocate_on(DeviceState& device, Bytes bytes, gpemu_cuda_memory_kind kind,
                   std::uint64_t* address) {
  if (bytes > device.info.total_memory) return GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
  const Bytes taken = charged(bytes);
  const auto ledger = device.device->allocate(taken);
  if (!ledger) return GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
  Memory& state = memory();
  const std::lock_guard lock(state.mutex);
  AddressSpace* const space = space_of(state, device);
  const auto start = space == nullptr ? std::nullopt : take_range(*space, taken);
  if (!start) {
    static_cast<void>(device.device->free(*ledger));
    return GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
  }
  count_held(state, device.ordinal, taken);
  record_allocation(device.ordinal, *start, static_cast<std::int64_t>(bytes));
  state.blocks.emplace(*start, Block{.bytes = bytes,
                                     .kind = kind,
                                     .device = device.ordinal,
                                     .id = state.next_id++,
                                     .ledger = *ledger,
                                     .shared = kind == GPEMU_CUDA_MEMORY_MANAGED});
  *address = *start;
  return GPEMU_CUDA_SUCCESS;
}

void count_held(Memory& state, int device, Bytes bytes) {
  AddressSpace& space = state.spaces[device];
  space.held += bytes;
  space.peak = std::max(space.peak, space.held);
  record_memory(device, space.peak);
}

Status run_copy(const gpemu_cuda_copy& copy, gpemu_cuda_stream& stream, bool blocking) {
  if (copy.width_bytes == 0 || copy.height == 0 || copy.depth == 0) return GPEMU_CUDA_SUCCESS;
  const auto to_extent = extent_of(copy, copy.destination_pitch, copy.destination_plane_pitch);
  const auto from_extent = extent_of(copy, copy.source_pitch, copy.source_plane_pitch);
  Bytes bytes = 0;
  if (!to_extent || !from_extent || __builtin_mul_overflow(copy.width_bytes, copy.height, &bytes) ||
      __builtin_mul_overflow(bytes, copy.depth, &bytes)) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  if (copy.destination == 0 || copy.source == 0) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  const Memory& state = memory();
  std::unique_lock lock(state.mutex);
  const Side to(state, copy.destination, *to_extent);
  const Side from(state, copy.source, *from_extent);
  lock.unlock();
  if (!to.inside || !from.inside) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  if (!fits_kind(copy.kind, to, from)) return GPEMU_CUDA_ERROR_INVALID_MEMCPY_DIRECTION;
  const bool plain = copy.height == 1 && copy.depth == 1;
  const bool dropped = bytes >= kLargeCopy && from.kind == GPEMU_CUDA_MEMORY_HOST &&
                       to.on_device() && !to.shared && plain && drops_data();
  Movement movement{
      .copy = copy,
      .to = to,
      .from = from,
      .bytes = bytes,
      .accesses = {Access{.start = copy.destination, .bytes = *to_extent, .writes = true},
                   Access{.start = copy.source, .bytes = *from_extent}},
      .keep = !dropped,
      .calls = {}};
  if (!to.on_device() && !from.on_device() && to.kind != GPEMU_CUDA_MEMORY_MANAGED &&
      from.kind != GPEMU_CUDA_MEMORY_MANAGED) {
    move_now(movement);
    return GPEMU_CUDA_SUCCESS;  // The host's own work, in its own time.
  }
  const bool pageable =
      to.kind == GPEMU_CUDA_MEMORY_UNREGISTERED || from.kind == GPEMU_CUDA_MEMORY_UNREGISTERED;
  const bool staged = pageable && to.on_device() && bytes <= kStagedBytes;
  // Source: CUDA Runtime API, "API synchronization behavior": from pageable memory the stream is
  // waited for before the copy is begun; between devices the host waits for nothing. A graph's
  // launch returns at once, whatever its nodes copy.
  if (blocking && staged && stream.node == nullptr) {
    wait_until(stream.stream->tail());
    wait_for_host_functions(stream);
  }
  const device::Interval interval = queue_copy(stream, to, from, bytes);
  const bool between_devices = to.on_device() && from.on_device();
  const bool waits =
      (blocking || pageable) && !staged && !between_devices && stream.node == nullptr;
  copy_host_calls(stream, movement.calls);
  if (!waits) {
    // Others write memory that is shared, so that nobody knows what must wait for what.
    const bool beside = bytes >= kLargeCopy && movement.keep && !pageable && !to.is_shared() &&
                        !from.is_shared() && !(between_devices && is_unkept(copy.source, bytes));
    beside ? move_beside(std::move(movement), interval.end, false)
           : move_in_order(std::move(movement), interval.end, pageable && to.on_device());
    return GPEMU_CUDA_SUCCESS;
  }
  // The host copies while the device does, unless it must wait for a host function.
  if (!have_returned(movement.calls)) {
    wait_until(interval.start);
    wait_for_host_functions(movement.calls);
  }
  move_now(movement);
  record_late_wait(clock().now() - interval.end);
  wait_until(interval.end);
  if (blocking) wait_for_host_functions(stream);
  return GPEMU_CUDA_SUCCESS;
}

namespace {

void set_rows(const gpemu_cuda_node_parameters& node, Bytes width, const Side& side) {
  for (std::uint64_t row = 0; row < node.set_height; ++row) {
    const std::uint64_t start = node.set_address + row * node.set_pitch;
    if (node.set_value == 0 && !side.shared) {
      drop(start, width, Content::kZeros);
      continue;
    }
    // Locked pages of the host stay; they may belong to a file of the program's.
    if (node.set_value == 0 && side.kind != GPEMU_CUDA_MEMORY_HOST) {
      clear_pages(start, width);
      continue;
    }
    if (!side.shared) keep(start, width);
    fill(start, &node.set_value, node.set_element_bytes, node.set_count);
  }
}

}  // namespace

Status run_set(const gpemu_cuda_node_parameters& node, gpemu_cuda_stream& stream) {
  Bytes width = 0, extent = 0;
  if (node.set_count == 0 || node.set_height == 0) return GPEMU_CUDA_SUCCESS;
  if (__builtin_mul_overflow(node.set_count, node.set_element_bytes, &width) ||
      __builtin_mul_overflow(node.set_height - 1, node.set_pitch, &extent) ||
      __builtin_add_overflow(extent, width, &extent) ||
      node.set_address % node.set_element_bytes != 0 ||
      (node.set_height > 1 && node.set_pitch < width)) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  const Memory& state = memory();
  std::unique_lock lock(state.mutex);
  const Side side(state, node.set_address, extent);
  lock.unlock();
  if (side.kind == GPEMU_CUDA_MEMORY_UNREGISTERED || !side.inside) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  const std::array written{Access{.start = node.set_address, .bytes = extent, .writes = true}};
  mover().in_order(written, [node, width, side] { set_rows(node, width, side); });
  const gpemu_operation operation{.struct_size = sizeof(operation),
                                  .kind = GPEMU_OPERATION_SET,
                                  .shape = {static_cast<std::int64_t>(width * node.set_height)},
                                  .name = "set memory"};
  return run_operation(stream.device->costs->price(operation), operation, stream);
}

namespace {

/// Describes a range of addresses, which kernels and libraries write.
Side side_of(std::uint64_t address, Bytes bytes) {
  const Memory& state = memory();
  const std::lock_guard lock(state.mutex);
  return {state, address, bytes};
}

/// A range of addresses and what is true of it as long as no content changes.
struct RecentRange {
  std::uint64_t address = 0;
  Bytes bytes = 0;
  WriterId writer = 0;
  std::uint8_t how = 0;
  std::uint64_t changes = 0;  ///< ContentMap::changes

  bool operator==(const RecentRange&) const = default;
};

/// What a thread found out last. Programs launch the same kernels on the same memory again and
/// again, and to look there takes a few nanoseconds where to find out takes two locks.
class RecentRanges {
 public:
  [[nodiscard]] bool contain(const RecentRange& range) const { return at(range) == range; }
  void add(const RecentRange& range) { ranges_[place(range)] = range; }

 private:
  /// Tensors lie at multiples of large powers of two. Source of the factor: Knuth, The Art of
  /// Computer Programming 3, 6.4, on multiplicative hashing: 2^64 over the golden ratio.
  [[nodiscard]] static std::size_t place(const RecentRange& range) {
    return range.address * 0x9E3779B97F4A7C15 >> 56;
  }
  [[nodiscard]] const RecentRange& at(const RecentRange& range) const {
    return ranges_[place(range)];
  }

  std::array<RecentRange, 256> ranges_{};
};

/// Makes a range of memory that others read at any time zeros in place of what a kernel writes.
/// Nobody sees those reads, so it counts as read now.
void clear_shared(std::uint64_t address, Bytes bytes, WriterId writer) {
  clear_pages(address, bytes);
  record_not_computed(address, bytes, writer);
}

/// Makes a range that a kernel changed in place not updated where its pages hold something.
void leave_not_updated(std::uint64_t address, Bytes bytes, WriterId writer) {
  ContentMap& contents = memory().contents;
  for (Bytes done = 0; done < bytes;) {
    const ContentMap::Part part = contents.assigned_part(address + done, bytes - done);
    if (part.content == Content::kKept) {
      contents.assign(address + done, part.bytes, Content::kNotUpdated, writer);
    } else if (part.content == Content::kZeros) {
      contents.assign(address + done, part.bytes, Content::kNotComputed, writer);
    }
    done += part.bytes;
  }
}

}  // namespace

void fill_by_kernel(std::uint64_t address, const void* value, Bytes element_bytes, Bytes count,
                    WriterId writer) {
  const Bytes bytes = element_bytes * count;
  if (bytes == 0) return;
  const Side side = side_of(address, bytes);
  if (!side.is_written_by_kernels() || !side.inside) return;
  const auto* const first = static_cast<const std::byte*>(value);
  if (std::all_of(first, first + element_bytes,
                  [](std::byte byte) { return byte == std::byte{}; })) {
    side.shared ? clear_pages(address, bytes) : drop(address, bytes, Content::kZeros);
    return;
  }
  // The host reads sizes, flags and scalars.
  constexpr Bytes kMaxFilled = 256 * kKiB;
  if (bytes > kMaxFilled) {
    side.shared ? clear_shared(address, bytes, writer)
                : drop(address, bytes, Content::kNotComputed, writer);
    return;
  }
  if (!side.shared) keep(address, bytes);
  fill(address, value, element_bytes, count);
}

void leave_uncomputed(std::uint64_t address, Bytes bytes, Uncomputed how, WriterId writer) {
  if (bytes == 0) return;
  ContentMap& contents = memory().contents;
  const RecentRange range{address, bytes, writer, static_cast<std::uint8_t>(how),
                          contents.changes()};
  thread_local RecentRanges left;
  if (left.contain(range)) return;
  const Side side = side_of(address, bytes);
  if (!side.is_written_by_kernels()) return;
  const Bytes covered = std::min(bytes, side.covered);
  if (covered == 0) return;
  if (side.shared && how == Uncomputed::kUpdated)
    return record_not_computed(address, covered, writer);
  if (side.shared) return clear_shared(address, covered, writer);
  if (how == Uncomputed::kUpdated) {
    leave_not_updated(address, covered, writer);
  } else {
    drop(address, covered, Content::kNotComputed, writer);
    if (how == Uncomputed::kOpen) contents.assign_open(address, covered, writer);
  }
  if (side.inside && contents.changes() == range.changes) left.add(range);
}

void store_by_kernel(std::uint64_t address, const void* data, Bytes bytes) {
  const Side side = side_of(address, bytes);
  if (!side.is_written_by_kernels() || !side.inside) return;
  if (!side.shared) keep(address, bytes);
  std::memcpy(reinterpret_cast<void*>(address), data, bytes);
}

bool known_to_kernel(std::uint64_t address, Bytes bytes) {
  if (address == 0 || bytes == 0) return false;
  const ContentMap& contents = memory().contents;
  const RecentRange range{address, bytes, 0, 0, contents.changes()};
  thread_local RecentRanges unknown;
  if (unknown.contain(range)) return false;
  const Side side = side_of(address, bytes);
  if (!side.is_read_by_kernels()) return false;
  if (side.shared || contents.all_known(address, bytes)) return true;
  if (contents.changes() == range.changes) unknown.add(range);
  return false;
}

bool load_for_kernel(std::uint64_t address, void* data, Bytes bytes) {
  const Side side = side_of(address, bytes);
  if (!side.is_read_by_kernels()) return false;
  if (!side.shared && !memory().contents.all_known(address, bytes)) return false;
  read_row(reinterpret_cast<std::uint64_t>(data), address, bytes, side.shared);
  return true;
}

Bytes device_bytes_at(std::uint64_t address, Bytes bytes) {
  const Side side = side_of(address, bytes);
  return side.is_written_by_kernels() ? std::min(bytes, side.covered) : 0;
}

void release_memory(DeviceState& device) {
  empty_pools(device);
  close_imports(device);
  std::vector<std::uint64_t> addresses;
  {
    const Memory& state = memory();
    const std::lock_guard lock(state.mutex);
    for (const auto& [address, block] : state.blocks) {
      if (block.ledger != 0 && block.device == device.ordinal) addresses.push_back(address);
    }
  }
  for (const std::uint64_t address : addresses) static_cast<void>(free_block(address, false));
  release_physical_memory(device);
  forget_variables(device);
}

MemoryStatistics memory_statistics(const DeviceState& device) {
  const Memory& state = memory();
  const std::lock_guard lock(state.mutex);
  const auto found = state.spaces.find(device.ordinal);
  if (found == state.spaces.end()) return {};
  return {.held = found->second.held, .peak = found->second.peak};
}

}  // namespace gpemu::cuda

// ---- The C interface

using gpemu::cuda::allocate;
using gpemu::cuda::attach;
using gpemu::cuda::Block;
using gpemu::cuda::block_at;
using gpemu::cuda::capture;
using gpemu::cuda::capturing;
using gpemu::cuda::check_unsafe_call;
using gpemu::cuda::current_device;
using gpemu::cuda::DeviceState;
using gpemu::cuda::enter_context;
using gpemu::cuda::finish_moves;
using gpemu::cuda::finish_moves_on;
using gpemu::cuda::forget_pooled;
using gpemu::cuda::free_block;
using gpemu::cuda::keep;
using gpemu::cuda::Memory;
using gpemu::cuda::memory;
using gpemu::cuda::read_row;
using gpemu::cuda::refuse_captured;
using gpemu::cuda::resolve_for_work;
using gpemu::cuda::run_copy;
using gpemu::cuda::run_set;
using gpemu::cuda::Side;
using gpemu::cuda::Status;
using gpemu::cuda::wait_for;

gpemu_cuda_status gpemu_cuda_malloc(uint64_t bytes, uint64_t* address) {
  if (address == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  return allocate(bytes, GPEMU_CUDA_MEMORY_DEVICE, address);
}

gpemu_cuda_status gpemu_cuda_malloc_managed(uint64_t bytes, uint32_t flags, uint64_t* address) {
  // 1: attached to all streams, 2: to the host. Source: cudaMemAttachGlobal, cudaMemAttachHost.
  if (address == nullptr || (flags != 1 && flags != 2) || bytes == 0) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  return allocate(bytes, GPEMU_CUDA_MEMORY_MANAGED, address);
}

gpemu_cuda_status gpemu_cuda_free(uint64_t address) {
  DeviceState* device = nullptr;
  GPEMU_CUDA_TRY(current_device(&device));
  if (address == 0) return GPEMU_CUDA_SUCCESS;
  GPEMU_CUDA_TRY(check_unsafe_call());
  wait_for(*device);
  if (forget_pooled(address)) return GPEMU_CUDA_SUCCESS;
  return free_block(address, false);
}

gpemu_cuda_status gpemu_cuda_host_alloc(uint64_t bytes, uint32_t flags, void** pointer) {
  if (pointer == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  DeviceState* device = nullptr;
  GPEMU_CUDA_TRY(enter_context(&device));
  if (bytes == 0) {
    *pointer = nullptr;
    return GPEMU_CUDA_SUCCESS;
  }
  auto pinned = gpemu::device::PinnedMemory::allocate(bytes);
  if (!pinned) {
    gpemu::cuda::tell(pinned.error().message);
    return GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (!pinned->locked()) gpemu::cuda::record_not_locked(bytes);
  void* const start = pinned->bytes().data();
  Memory& state = memory();
  const std::lock_guard lock(state.mutex);
  state.blocks.emplace(reinterpret_cast<std::uint64_t>(start), Block{.bytes = bytes,
                                                                     .kind = GPEMU_CUDA_MEMORY_HOST,
                                                                     .flags = flags,
                                                                     .id = state.next_id++,
                                                                     .pinned = *std::move(pinned)});
  *pointer = start;
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_host_free(void* pointer) {
  GPEMU_CUDA_TRY(attach());
  if (pointer == nullptr) return GPEMU_CUDA_SUCCESS;
  return free_block(reinterpret_cast<std::uint64_t>(pointer), true);
}

gpemu_cuda_status gpemu_cuda_host_register(void* pointer, uint64_t bytes, uint32_t flags) {
  if (pointer == nullptr || bytes == 0) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  DeviceState* device = nullptr;
  GPEMU_CUDA_TRY(enter_context(&device));
  const auto address = reinterpret_cast<std::uint64_t>(pointer);
  Memory& state = memory();
  const std::lock_guard lock(state.mutex);
  const auto next = state.blocks.lower_bound(address);
  if (block_at(state, address) != nullptr ||
      (next != state.blocks.end() && next->first - address < bytes)) {
    return GPEMU_CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  }
  const auto locked = gpemu::device::lock_pages({static_cast<std::byte*>(pointer), bytes});
  if (!locked) {
    gpemu::cuda::tell(locked.error().message);
    return GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (!*locked) gpemu::cuda::record_not_locked(bytes);
  state.blocks.emplace(
      address,
      Block{.bytes = bytes, .kind = GPEMU_CUDA_MEMORY_HOST, .flags = flags, .id = state.next_id++});
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_host_unregister(void* pointer) {
  GPEMU_CUDA_TRY(attach());
  finish_moves(reinterpret_cast<std::uint64_t>(pointer));
  Memory& state = memory();
  const std::lock_guard lock(state.mutex);
  const auto found = state.blocks.find(reinterpret_cast<std::uint64_t>(pointer));
  if (found == state.blocks.end() || found->second.kind != GPEMU_CUDA_MEMORY_HOST ||
      found->second.pinned) {
    return GPEMU_CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  }
  ::munlock(pointer, found->second.bytes);
  state.blocks.erase(found);
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_pointer_info(uint64_t address, gpemu_cuda_pointer* info) {
  if (info == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  GPEMU_CUDA_TRY(attach());
  const Memory& state = memory();
  const std::lock_guard lock(state.mutex);
  const auto* const block = block_at(state, address);
  if (block == nullptr) {
    *info = {.device = -1};
    return GPEMU_CUDA_SUCCESS;
  }
  *info = {.kind = block->second.kind,
           .device = block->second.device,
           .base = block->first,
           .bytes = block->second.bytes,
           .flags = block->second.flags,
           .buffer_id = block->second.id};
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_copy_memory(const gpemu_cuda_copy* copy,
                                         gpemu_cuda_stream_handle stream, int32_t blocking) {
  if (copy == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  if (copy->kind < GPEMU_CUDA_COPY_HOST_TO_HOST || copy->kind > GPEMU_CUDA_COPY_DEFAULT) {
    return GPEMU_CUDA_ERROR_INVALID_MEMCPY_DIRECTION;
  }
  gpemu_cuda_stream* found = nullptr;
  GPEMU_CUDA_TRY(resolve_for_work(stream, &found));
  if (capturing(*found)) {
    if (blocking != 0) return refuse_captured(*found);
    gpemu_cuda_node_parameters node{.kind = GPEMU_CUDA_NODE_COPY};
    node.copy = *copy;
    return capture(*found, node);
  }
  if (blocking != 0) GPEMU_CUDA_TRY(check_unsafe_call());
  return run_copy(*copy, *found, blocking != 0);
}

gpemu_cuda_status gpemu_cuda_memcpy(uint64_t destination, uint64_t source, uint64_t bytes,
                                    gpemu_cuda_copy_kind kind, gpemu_cuda_stream_handle stream,
                                    int32_t blocking) {
  const gpemu_cuda_copy copy{.destination = destination,
                             .source = source,
                             .width_bytes = bytes,
                             .height = 1,
                             .depth = 1,
                             .kind = kind};
  return gpemu_cuda_copy_memory(&copy, stream, blocking);
}

// NOLINTNEXTLINE(readability-function-size): the arguments of cuMemsetD2D32Async.
gpemu_cuda_status gpemu_cuda_set_memory(uint64_t address, uint64_t pitch, uint32_t value,
                                        uint32_t element_bytes, uint64_t count, uint64_t height,
                                        gpemu_cuda_stream_handle stream) {
  if (element_bytes != 1 && element_bytes != 2 && element_bytes != 4) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  gpemu_cuda_stream* found = nullptr;
  GPEMU_CUDA_TRY(resolve_for_work(stream, &found));
  gpemu_cuda_node_parameters node{.kind = GPEMU_CUDA_NODE_SET};
  node.set_address = address;
  node.set_pitch = pitch;
  node.set_value = element_bytes == 1 ? value & 0xff : element_bytes == 2 ? value & 0xffff : value;
  node.set_element_bytes = element_bytes;
  node.set_count = count;
  node.set_height = height;
  return capturing(*found) ? capture(*found, node) : run_set(node, *found);
}

namespace {

/// Checks that a range lies in memory that a device can use.
Status check_range(std::uint64_t address, gpemu::Bytes bytes, Side* found) {
  GPEMU_CUDA_TRY(attach());
  const Memory& state = memory();
  const std::lock_guard lock(state.mutex);
  const Side side(state, address, bytes);
  *found = side;
  return side.kind != GPEMU_CUDA_MEMORY_UNREGISTERED && side.inside
             ? GPEMU_CUDA_SUCCESS
             : GPEMU_CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

gpemu_cuda_status gpemu_cuda_poke(uint64_t address, const void* data, uint64_t bytes) {
  if (data == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  Side side;
  GPEMU_CUDA_TRY(check_range(address, bytes, &side));
  const std::array written{gpemu::cuda::Access{.start = address, .bytes = bytes, .writes = true}};
  finish_moves_on(written);
  if (bytes > 0 && !side.shared) keep(address, bytes);
  std::memcpy(reinterpret_cast<void*>(address), data, bytes);
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_peek(uint64_t address, void* data, uint64_t bytes) {
  if (data == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  Side side;
  GPEMU_CUDA_TRY(check_range(address, bytes, &side));
  const std::array read{gpemu::cuda::Access{.start = address, .bytes = bytes}};
  finish_moves_on(read);
  read_row(reinterpret_cast<std::uint64_t>(data), address, bytes, side.shared);
  return GPEMU_CUDA_SUCCESS;
}
