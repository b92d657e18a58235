// SPDX-License-Identifier: Apache-2.0
#include "gpemu/memory/allocation.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#include "gpemu/base/mutex.hpp"
#include "gpemu/memory/managed.hpp"
#include "gpemu/memory/memory_content.hpp"
#include "gpemu/process/attach.hpp"
#include "gpemu/process/log.hpp"
#include "gpemu/process/recorder.hpp"
#include "gpemu/process/thread_state.hpp"
#include "gpemu/streams/mover.hpp"
#include "gpemu/streams/waits.hpp"

namespace gpemu::memory {
namespace {

/// Allocations up to this size share pages of the GPU's memory; larger ones take whole pages.
/// Source: cudaMalloc on an H200, driver 580.159: allocations of up to 1 MiB lie in one page until
/// it is full, aligned to 512 bytes, and free memory shrinks and grows by 2 MiB.
constexpr Bytes kLargestSmall = kMiB;
constexpr Bytes kAlignment = 512;

/// How much larger the address range is than the memory, so that fragmentation does not exhaust it.
constexpr Bytes kAddressSpaceFactor = 8;

/// Gives back all memory that was allocated on a device.
void release_blocks(process::DeviceState& device) {
  std::vector<std::uint64_t> addresses;
  {
    const Memory& state = memory();
    const Lock lock(state.mutex);
    for (const auto& [address, block] : state.blocks) {
      const bool is_taken = block.origin != Origin::kElsewhere;
      if (is_taken && block.device == device.ordinal) addresses.push_back(address);
    }
  }
  for (const std::uint64_t address : addresses) static_cast<void>(free_block(address, false));
}

AddressSpace* space_of(Memory& state, process::DeviceState& device) GPEMU_REQUIRES(state.mutex) {
  AddressSpace& space = state.spaces[device.ordinal];
  if (space.base != 0) return &space;
  const Bytes size = round_up(device.info.total_memory * kAddressSpaceFactor, kPage);
  // One page more, so that the range can begin at a whole page.
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
  // One written byte must not take a huge page.
  ::madvise(base, size, MADV_NOHUGEPAGE);
  ::madvise(base, size, MADV_DONTDUMP);
  space.free.emplace(reinterpret_cast<std::uint64_t>(base), size);
  space.descriptor = descriptor;
  space.base = reinterpret_cast<std::uint64_t>(base);
  space.size = size;
  forget_unmapped(state, space.base, size);
  device.end_with_context(process::ContextPart::kMemory, release_blocks);
  return &space;
}

bool is_small(Bytes bytes) {
  return bytes <= kLargestSmall;
}

/// Returns the addresses that an allocation takes.
Bytes taken_by(Bytes bytes) {
  return round_up(bytes, is_small(bytes) ? kAlignment : kPage);
}

/// Where an allocation lies, and its place in the device's ledger.
struct TakenMemory {
  std::uint64_t start = 0;
  device::DeviceAddress ledger = 0;
};

/// Takes whole pages of a device. Returns nothing if there is no room.
std::optional<TakenMemory> take_pages(Memory& state, process::DeviceState& device,
                                      AddressSpace& space, Bytes bytes)
    GPEMU_REQUIRES(state.mutex) {
  auto ledger = device.device->allocate(bytes);
  if (!ledger && evict_managed(state, device, bytes)) ledger = device.device->allocate(bytes);
  if (!ledger) return std::nullopt;
  const auto start = take_range(space.free, bytes);
  if (!start) {
    static_cast<void>(device.device->free(*ledger));
    return std::nullopt;
  }
  count_held(state, device.ordinal, bytes);
  return TakenMemory{*start, *ledger};
}

/// Takes a part of a page that small allocations share; makes one if all are full.
std::optional<TakenMemory> take_part(Memory& state, process::DeviceState& device,
                                     AddressSpace& space, Bytes bytes) GPEMU_REQUIRES(state.mutex) {
  for (auto& [start, page] : space.shared_pages) {
    if (const auto part = take_range(page.free, bytes)) return TakenMemory{*part, page.ledger};
  }
  // Made before the memory is taken, which would be lost if there were no room for this.
  std::map<std::uint64_t, SharedPage> made{{0, SharedPage{.free = {{0, kPage}}}}};
  const auto page = take_pages(state, device, space, kPage);
  if (!page) return std::nullopt;
  auto node = made.extract(made.begin());
  auto whole = node.mapped().free.extract(0);
  whole.key() = page->start;
  node.mapped().free.insert(std::move(whole));
  node.mapped().ledger = page->ledger;
  node.key() = page->start;
  SharedPage& shared = space.shared_pages.insert(std::move(node)).position->second;
  return TakenMemory{*take_range(shared.free, bytes), page->ledger};
}

/// Takes addresses for managed memory, whose pages take memory when they are used.
std::optional<TakenMemory> take_addresses(Memory& state, AddressSpace& space, Bytes bytes)
    GPEMU_REQUIRES(state.mutex) {
  const auto start = take_range(space.free, bytes);
  if (!start) return std::nullopt;
  add_managed(state, *start, bytes, true);
  return TakenMemory{*start, 0};
}

/// Returns how the thread's current device may use a block.
std::uint32_t access_of(const Block& block) {
  constexpr std::uint32_t kReadAndWrite = 3;
  if (block.handle == 0) return kReadAndWrite;
  const auto found = block.access.find(process::thread_state.current_device());
  return found == block.access.end() ? 0 : found->second;
}

void give_back_pages(process::DeviceState& device, AddressSpace& space, const TakenMemory& place,
                     Bytes bytes) {
  give_back_range(space.free, place.start, bytes);
  space.held -= bytes;
  const auto freed = device.device->free(place.ledger);
  GPEMU_CHECK(freed.has_value(), "the ledger knows what the address space does");
}

/// Gives back a part of a shared page, and the page with its last part.
void give_back_part(process::DeviceState& device, AddressSpace& space, std::uint64_t start,
                    Bytes bytes) {
  const auto page = std::prev(space.shared_pages.upper_bound(start));
  FreeRanges& free = page->second.free;
  give_back_range(free, start, bytes);
  if (free.begin()->second < kPage) return;
  give_back_pages(device, space, {page->first, page->second.ledger}, kPage);
  space.shared_pages.erase(page);
}

}  // namespace

void finish_moves(std::uint64_t address) {
  if (!streams::mover().busy()) return;
  kernels::Access block{.writes = true};
  {
    const Memory& state = memory();
    const Lock lock(state.mutex);
    const auto* const found = block_at(state, address);
    if (found == nullptr) return;
    block.start = found->first;
    block.bytes = found->second.bytes;
  }
  const std::array whole{block};
  streams::wait_for_moves_on(whole);
}

process::Status free_block(std::uint64_t address, bool host) {
  finish_moves(address);
  Memory& state = memory();
  const Lock lock(state.mutex);
  const auto found = state.blocks.find(address);
  if (found == state.blocks.end()) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  Block& block = found->second;
  if (host) {
    if (!block.pinned) return GPEMU_CUDA_ERROR_INVALID_VALUE;
    state.blocks.erase(found);
    return GPEMU_CUDA_SUCCESS;
  }
  if (block.origin == Origin::kElsewhere) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  AddressSpace& space = state.spaces[block.device];
  // What the host and devices share takes whole pages of addresses, and no memory of its own.
  const bool moves = block.ledger == 0;
  const Bytes bytes = moves ? round_up(block.bytes, kPage) : taken_by(block.bytes);
  if (block.shared) {
    clear_pages(address, bytes);
    state.contents.assign(address, bytes, Content::kZeros);
  } else {
    drop(address, bytes, Content::kZeros);
    state.stale.give_back(address, bytes);
  }
  if (block.kind == GPEMU_CUDA_MEMORY_MANAGED) remove_managed(state, address);
  if (moves) {
    give_back_range(space.free, address, bytes);
    state.blocks.erase(found);
    return GPEMU_CUDA_SUCCESS;
  }
  process::record_allocation(block.device, address, -static_cast<std::int64_t>(block.bytes));
  process::DeviceState& device = process::device_at(block.device);
  if (is_small(block.bytes)) {
    give_back_part(device, space, address, bytes);
  } else {
    give_back_pages(device, space, {address, block.ledger}, bytes);
  }
  state.blocks.erase(found);
  return GPEMU_CUDA_SUCCESS;
}

process::Status allocate_on(process::DeviceState& device, Bytes bytes, Origin origin,
                            std::uint64_t* address) {
  const bool managed = origin == Origin::kManaged;
  const bool moves = managed && shares_managed(device);
  if (bytes > device.info.total_memory * (moves ? kAddressSpaceFactor : 1)) {
    return GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
  }
  const Bytes taken = moves ? round_up(bytes, kPage) : taken_by(bytes);
  Memory& state = memory();
  const Lock lock(state.mutex);
  AddressSpace* const space = space_of(state, device);
  if (space == nullptr) return GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
  // Made before the memory is taken, which would be lost if there were no room for this.
  std::map<std::uint64_t, Block> made;
  made.emplace(0, Block{.bytes = bytes,
                        .kind = managed ? GPEMU_CUDA_MEMORY_MANAGED : GPEMU_CUDA_MEMORY_DEVICE,
                        .origin = origin,
                        .device = device.ordinal,
                        .shared = managed});
  const auto place = moves             ? take_addresses(state, *space, taken)
                     : is_small(bytes) ? take_part(state, device, *space, taken)
                                       : take_pages(state, device, *space, taken);
  if (!place) return GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
  auto node = made.extract(made.begin());
  node.key() = place->start;
  node.mapped().id = state.next_id++;
  node.mapped().ledger = place->ledger;
  state.blocks.insert(std::move(node));
  if (managed && !moves) add_managed(state, place->start, bytes, false);
  if (!moves)
    process::record_allocation(device.ordinal, place->start, static_cast<std::int64_t>(bytes));
  *address = place->start;
  return GPEMU_CUDA_SUCCESS;
}

process::Status allocate_host(Bytes bytes, std::uint32_t flags, void** pointer) {
  auto pinned = device::PinnedMemory::allocate(bytes);
  if (!pinned) {
    process::tell(pinned.error().message);
    return GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (!pinned->locked()) process::record_not_locked(bytes);
  void* const start = pinned->bytes().data();
  Memory& state = memory();
  const Lock lock(state.mutex);
  forget_unmapped(state, reinterpret_cast<std::uint64_t>(start), bytes);
  state.blocks.emplace(reinterpret_cast<std::uint64_t>(start), Block{.bytes = bytes,
                                                                     .kind = GPEMU_CUDA_MEMORY_HOST,
                                                                     .flags = flags,
                                                                     .id = state.next_id++,
                                                                     .pinned = *std::move(pinned)});
  *pointer = start;
  return GPEMU_CUDA_SUCCESS;
}

process::Status register_host(void* pointer, Bytes bytes, std::uint32_t flags) {
  const auto address = reinterpret_cast<std::uint64_t>(pointer);
  Memory& state = memory();
  const process::TellLater later;
  const Lock lock(state.mutex);
  const auto next = state.blocks.lower_bound(address);
  if (block_at(state, address) != nullptr ||
      (next != state.blocks.end() && next->first - address < bytes)) {
    return GPEMU_CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  }
  const auto locked = device::lock_pages({static_cast<std::byte*>(pointer), bytes});
  if (!locked) {
    process::tell(locked.error().message);
    return GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (!*locked) process::record_not_locked(bytes);
  state.blocks.emplace(
      address,
      Block{.bytes = bytes, .kind = GPEMU_CUDA_MEMORY_HOST, .flags = flags, .id = state.next_id++});
  return GPEMU_CUDA_SUCCESS;
}

process::Status unregister_host(void* pointer) {
  finish_moves(reinterpret_cast<std::uint64_t>(pointer));
  Memory& state = memory();
  const Lock lock(state.mutex);
  const auto found = state.blocks.find(reinterpret_cast<std::uint64_t>(pointer));
  if (found == state.blocks.end() || found->second.kind != GPEMU_CUDA_MEMORY_HOST ||
      found->second.pinned) {
    return GPEMU_CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  }
  ::munlock(pointer, found->second.bytes);
  state.blocks.erase(found);
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_pointer describe_pointer(std::uint64_t address) {
  const Memory& state = memory();
  const Lock lock(state.mutex);
  const auto* const block = block_at(state, address);
  const auto* const reserved = reservation_at(state, address);
  if (block == nullptr) {
    if (reserved == nullptr) return {.device = -1};
    return {.device = -1, .range_start = reserved->first, .range_bytes = reserved->second};
  }
  return {.kind = block->second.kind,
          .device = block->second.device,
          .base = block->first,
          .bytes = block->second.bytes,
          .flags = block->second.flags,
          .buffer_id = block->second.id,
          .range_start = reserved == nullptr ? block->first : reserved->first,
          .range_bytes = reserved == nullptr ? block->second.bytes : reserved->second,
          .legacy_ipc = block->second.origin == Origin::kMalloc ? 1 : 0,
          .exportable = block->second.exportable ? 1 : 0,
          .access = access_of(block->second)};
}

}  // namespace gpemu::memory
