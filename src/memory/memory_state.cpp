// SPDX-License-Identifier: Apache-2.0
#include "gpemu/memory/memory_state.hpp"

#include <fcntl.h>
#include <iterator>
#include <sys/mman.h>
#include <unistd.h>

namespace gpemu::memory {

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

const std::pair<const std::uint64_t, Block>* block_at(const Memory& state, std::uint64_t address) {
  auto found = state.blocks.upper_bound(address);
  if (found == state.blocks.begin()) return nullptr;
  --found;
  return address - found->first < found->second.bytes ? &*found : nullptr;
}

const std::pair<const std::uint64_t, Bytes>* reservation_at(const Memory& state,
                                                            std::uint64_t address) {
  auto found = state.reservations.upper_bound(address);
  if (found == state.reservations.begin()) return nullptr;
  --found;
  return address - found->first < found->second ? &*found : nullptr;
}

void forget_unmapped(Memory& state, std::uint64_t start, Bytes bytes) {
  std::erase_if(state.blocks, [=](const auto& entry) {
    const auto& [address, block] = entry;
    return block.kind == GPEMU_CUDA_MEMORY_HOST && !block.pinned && address < start + bytes &&
           start < address + block.bytes;
  });
}

std::optional<std::uint64_t> take_range(FreeRanges& free, Bytes bytes) {
  for (auto range = free.begin(); range != free.end(); ++range) {
    if (range->second < bytes) continue;
    const std::uint64_t start = range->first;
    const Bytes rest = range->second - bytes;
    // The node is reused: if a new one could not be allocated, the range would be lost.
    auto node = free.extract(range);
    if (rest > 0) {
      node.key() = start + bytes;
      node.mapped() = rest;
      free.insert(std::move(node));
    }
    return start;
  }
  return std::nullopt;
}

void give_back_range(FreeRanges& free, std::uint64_t start, Bytes bytes) {
  auto next = free.lower_bound(start);
  if (next != free.end() && start + bytes == next->first) {
    bytes += next->second;
    next = free.erase(next);
  }
  if (next != free.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == start) {
      before->second += bytes;
      return;
    }
  }
  free.emplace(start, bytes);
}

}  // namespace gpemu::memory
