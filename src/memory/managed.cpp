// SPDX-License-Identifier: Apache-2.0
#include "gpemu/memory/managed.hpp"

#include <algorithm>
#include <iterator>

#include "gpemu/base/mutex.hpp"
#include "gpemu/memory/memory_content.hpp"
#include "gpemu/process/attach.hpp"

namespace gpemu::memory {
namespace {

using Advice = ManagedBlock::Advice;
using Page = ManagedBlock::Page;

/// What advice and prefetches apply to: pages of the host. Source: cuMemAdvise, cuMemPrefetchAsync.
constexpr Bytes kAdvicePage = 4096;

/// CUmem_advise.
enum Advices : std::int32_t {
  kSetReadMostly = 1,
  kUnsetReadMostly,
  kSetPreferred,
  kUnsetPreferred,
  kSetAccessedBy,
  kUnsetAccessedBy
};

/// A range of a managed block, in bytes from its start.
struct Part {
  ManagedBlock* block = nullptr;
  std::uint64_t start = 0;  ///< of the block.
  Bytes begin = 0, end = 0;
};

/// Returns a range's part of a managed block; without a block unless all of it is managed.
Part part_of(Memory& state, std::uint64_t address, Bytes bytes) GPEMU_REQUIRES(state.mutex) {
  auto found = state.managed.upper_bound(address);
  if (found == state.managed.begin()) return {};
  --found;
  ManagedBlock& block = found->second;
  const Bytes begin = address - found->first;
  if (begin >= block.bytes || bytes > block.bytes - begin) return {};
  return {.block = &block, .start = found->first, .begin = begin, .end = begin + bytes};
}

/// Makes a part of the advice begin at an offset.
std::map<Bytes, Advice>::iterator split(std::map<Bytes, Advice>& advice, Bytes at) {
  const auto before = std::prev(advice.upper_bound(at));
  return before->first == at ? before : advice.emplace(at, before->second).first;
}

/// Changes the advice of the host pages of a part.
template <typename Change>
void change_advice(const Part& part, Change change) {
  auto& advice = part.block->advice;
  const Bytes end = std::min(round_up(part.end, kAdvicePage), part.block->bytes);
  auto each = split(advice, part.begin / kAdvicePage * kAdvicePage);
  const auto last = end == part.block->bytes ? advice.end() : split(advice, end);
  for (; each != last; ++each) change(each->second);
}

/// Gives a page's memory back to its device.
void leave(Memory& state, Page& page) GPEMU_REQUIRES(state.mutex) {
  if (page.ledger == 0) return;
  process::DeviceState& device = process::device_at(page.device);
  AddressSpace& space = state.spaces[page.device];
  const auto freed = device.device->free(page.ledger);
  GPEMU_CHECK(freed.has_value(), "the ledger knows managed pages");
  space.held -= kPage;
  space.managed.erase(page.arrival);
  page = {};
}

/// Takes memory of a device for a page. Returns false if there is no room, even without the pages
/// that came before `first`.
bool arrive(Memory& state, std::uint64_t start, std::size_t index, process::DeviceState& device,
            std::uint64_t first) GPEMU_REQUIRES(state.mutex) {
  Page& page = state.managed.at(start).pages[index];
  if (page.ledger != 0 && page.device == device.ordinal) return true;
  leave(state, page);
  auto& arrived = state.spaces[device.ordinal].managed;
  auto ledger = device.device->allocate(kPage);
  if (!ledger && !arrived.empty() && arrived.begin()->first < first) {
    evict_managed(state, device, kPage);
    ledger = device.device->allocate(kPage);
  }
  if (!ledger) return false;
  page = {.device = device.ordinal, .ledger = *ledger, .arrival = state.next_arrival++};
  arrived.emplace(page.arrival, ManagedPage{start, index});
  count_held(state, device.ordinal, kPage);
  return true;
}

/// Moves the pages of a part to a place, and returns how many bytes moved. Of a part that does not
/// fit, as many pages move as do.
Bytes move_to(Memory& state, const Part& part, std::int32_t place) GPEMU_REQUIRES(state.mutex) {
  Bytes moved = 0;
  if (part.block->pages.empty()) return 0;
  const std::uint64_t first = state.next_arrival;
  for (std::size_t index = part.begin / kPage; index * kPage < part.end; ++index) {
    Page& page = part.block->pages[index];
    const bool is_there =
        place == kHostPlace ? page.ledger == 0 : page.ledger != 0 && page.device == place;
    if (is_there) continue;
    if (place == kHostPlace) {
      leave(state, page);
    } else if (!arrive(state, part.start, index, process::device_at(place), first)) {
      break;
    }
    moved += kPage;
  }
  return std::min(moved, part.end - part.begin);
}

/// Errors: INVALID_DEVICE unless the place is the host or a device that shares managed memory.
process::Status check_place(std::int32_t place) {
  if (place == kHostPlace) return GPEMU_CUDA_SUCCESS;
  const bool exists = place >= 0 && place < process::device_count();
  return exists && shares_managed(process::device_at(place)) ? GPEMU_CUDA_SUCCESS
                                                             : GPEMU_CUDA_ERROR_INVALID_DEVICE;
}

}  // namespace

void add_managed(Memory& state, std::uint64_t start, Bytes bytes, bool moves) {
  state.has_managed.store(true, std::memory_order_relaxed);
  ManagedBlock& block = state.managed[start];
  block.bytes = bytes;
  if (moves) block.pages.resize(bytes / kPage);
  block.advice.emplace(0, Advice{});
}

void remove_managed(Memory& state, std::uint64_t start) {
  const auto found = state.managed.find(start);
  if (found == state.managed.end()) return;
  for (Page& page : found->second.pages) leave(state, page);
  state.managed.erase(found);
}

bool evict_managed(Memory& state, process::DeviceState& device, Bytes bytes) {
  auto& arrived = state.spaces[device.ordinal].managed;
  Bytes freed = 0;
  for (; freed < bytes && !arrived.empty(); freed += kPage) {
    const ManagedPage& first = arrived.begin()->second;
    leave(state, state.managed.at(first.start).pages[first.index]);
  }
  return freed > 0;
}

void use_managed(std::uint64_t address, Bytes bytes, process::DeviceState& device) {
  Memory& state = memory();
  if (!state.has_managed.load(std::memory_order_relaxed) || !shares_managed(device)) return;
  const Lock lock(state.mutex);
  const Part whole = part_of(state, address, 1);
  if (whole.block == nullptr) return;
  const Bytes most = whole.block->bytes - whole.begin;
  const Part used = part_of(state, address, std::min(bytes, most));
  static_cast<void>(move_to(state, used, device.ordinal));
}

process::Status advise_managed(std::uint64_t address, Bytes bytes, std::int32_t advice,
                               std::int32_t place) {
  if (advice < kSetReadMostly || advice > kUnsetAccessedBy || bytes == 0) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  Memory& state = memory();
  const Lock lock(state.mutex);
  const Part part = part_of(state, address, bytes);
  if (part.block == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  const bool names_place =
      advice == kSetPreferred || advice == kSetAccessedBy || advice == kUnsetAccessedBy;
  if (names_place) GPEMU_CUDA_TRY(check_place(place));
  change_advice(part, [advice, place](Advice& changed) {
    if (advice <= kUnsetReadMostly) changed.read_mostly = advice == kSetReadMostly;
    if (advice == kSetPreferred) changed.preferred = place;
    if (advice == kUnsetPreferred) changed.preferred = kNoPlace;
    if (advice == kSetAccessedBy) changed.accessed_by.insert(place);
    if (advice == kUnsetAccessedBy) changed.accessed_by.erase(place);
  });
  return GPEMU_CUDA_SUCCESS;
}

process::Status move_managed(std::uint64_t address, Bytes bytes, std::int32_t place, Bytes* moved) {
  if (bytes == 0) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  Memory& state = memory();
  const Lock lock(state.mutex);
  const Part part = part_of(state, address, bytes);
  if (part.block == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  GPEMU_CUDA_TRY(check_place(place));
  change_advice(part, [place](Advice& changed) { changed.prefetched = place; });
  *moved = move_to(state, part, place);
  return GPEMU_CUDA_SUCCESS;
}

process::Status describe_managed(std::uint64_t address, Bytes bytes,
                                 gpemu_cuda_managed_range* range) {
  Memory& state = memory();
  const Lock lock(state.mutex);
  const Part part = part_of(state, address, bytes);
  if (part.block == nullptr || bytes == 0) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  const auto& advice = part.block->advice;
  auto each = std::prev(advice.upper_bound(part.begin));
  Advice all = each->second;
  while (++each != advice.end() && each->first < part.end) {
    const Advice& other = each->second;
    all.read_mostly &= other.read_mostly;
    if (other.preferred != all.preferred) all.preferred = kNoPlace;
    if (other.prefetched != all.prefetched) all.prefetched = kNoPlace;
    std::erase_if(all.accessed_by,
                  [&other](int place) { return !other.accessed_by.contains(place); });
  }
  *range = {.read_mostly = all.read_mostly ? 1 : 0,
            .preferred = all.preferred,
            .prefetched = all.prefetched};
  for (const int place : all.accessed_by) {
    if (range->accessed_by_count == std::size(range->accessed_by)) break;
    range->accessed_by[range->accessed_by_count++] = place;
  }
  return GPEMU_CUDA_SUCCESS;
}

}  // namespace gpemu::memory
