// SPDX-License-Identifier: Apache-2.0
#include "allocation.hpp"

#include <algorithm>
#include <array>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#include "gpemu/base/mutex.hpp"
#include "gpemu/base/undo.hpp"

#include "attach.hpp"
#include "log.hpp"
#include "memory_content.hpp"
#include "mover.hpp"
#include "recorder.hpp"
#include "waits.hpp"

namespace gpemu::cuda {
namespace {

/// Allocations below this size share a page of the GPU's memory; larger ones take whole pages.
/// Source: cudaMalloc places small allocations together, aligned to 512 bytes.
constexpr Bytes kSmall = kMiB;
constexpr Bytes kAlignment = 512;

/// How much larger the address range is than the memory, so that fragmentation does not exhaust it.
constexpr Bytes kAddressSpaceFactor = 8;

/// Gives back all memory that was allocated on a device.
void release_blocks(DeviceState& device) {
  std::vector<std::uint64_t> addresses;
  {
    const Memory& state = memory();
    const Lock lock(state.mutex);
    for (const auto& [address, block] : state.blocks) {
      if (block.ledger != 0 && block.device == device.ordinal) addresses.push_back(address);
    }
  }
  for (const std::uint64_t address : addresses) static_cast<void>(free_block(address, false));
}

AddressSpace* space_of(Memory& state, DeviceState& device) GPEMU_REQUIRES(state.mutex) {
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
  device.end_with_context(ContextPart::kMemory, release_blocks);
  return &space;
}

Bytes charged(Bytes bytes) {
  return bytes < kSmall ? round_up(bytes, kAlignment) : round_up(bytes, kPage);
}

}  // namespace

void finish_moves(std::uint64_t address) {
  if (!mover().busy()) return;
  Access block{.writes = true};
  {
    const Memory& state = memory();
    const Lock lock(state.mutex);
    const auto* const found = block_at(state, address);
    if (found == nullptr) return;
    block.start = found->first;
    block.bytes = found->second.bytes;
  }
  const std::array whole{block};
  wait_for_moves_on(whole);
}

Status free_block(std::uint64_t address, bool host) {
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
  Undo charge([&] { static_cast<void>(device.device->free(*ledger)); });
  Memory& state = memory();
  const Lock lock(state.mutex);
  AddressSpace* const space = space_of(state, device);
  const auto start = space == nullptr ? std::nullopt : take_range(*space, taken);
  if (!start) return GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
  state.blocks.emplace(*start, Block{.bytes = bytes,
                                     .kind = kind,
                                     .device = device.ordinal,
                                     .id = state.next_id++,
                                     .ledger = *ledger,
                                     .shared = kind == GPEMU_CUDA_MEMORY_MANAGED});
  charge.keep();
  count_held(state, device.ordinal, taken);
  record_allocation(device.ordinal, *start, static_cast<std::int64_t>(bytes));
  *address = *start;
  return GPEMU_CUDA_SUCCESS;
}

void count_held(Memory& state, int device, Bytes bytes) {
  AddressSpace& space = state.spaces[device];
  space.held += bytes;
  space.peak = std::max(space.peak, space.held);
  record_memory(device, space.peak);
}

Status allocate_host(Bytes bytes, std::uint32_t flags, void** pointer) {
  auto pinned = device::PinnedMemory::allocate(bytes);
  if (!pinned) {
    tell(pinned.error().message);
    return GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (!pinned->locked()) record_not_locked(bytes);
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

Status register_host(void* pointer, Bytes bytes, std::uint32_t flags) {
  const auto address = reinterpret_cast<std::uint64_t>(pointer);
  Memory& state = memory();
  const TellLater later;
  const Lock lock(state.mutex);
  const auto next = state.blocks.lower_bound(address);
  if (block_at(state, address) != nullptr ||
      (next != state.blocks.end() && next->first - address < bytes)) {
    return GPEMU_CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  }
  const auto locked = device::lock_pages({static_cast<std::byte*>(pointer), bytes});
  if (!locked) {
    tell(locked.error().message);
    return GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (!*locked) record_not_locked(bytes);
  state.blocks.emplace(
      address,
      Block{.bytes = bytes, .kind = GPEMU_CUDA_MEMORY_HOST, .flags = flags, .id = state.next_id++});
  return GPEMU_CUDA_SUCCESS;
}

Status unregister_host(void* pointer) {
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
  if (block == nullptr) return {.device = -1};
  return {.kind = block->second.kind,
          .device = block->second.device,
          .base = block->first,
          .bytes = block->second.bytes,
          .flags = block->second.flags,
          .buffer_id = block->second.id};
}

}  // namespace gpemu::cuda
