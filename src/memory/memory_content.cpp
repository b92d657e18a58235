// SPDX-License-Identifier: Apache-2.0
#include "gpemu/memory/memory_content.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>

#include "gpemu/base/mutex.hpp"
#include "gpemu/process/recorder.hpp"

namespace gpemu::memory {
namespace {

/// From this size on, pages of the host that are no longer needed stay for the next copy.
constexpr Bytes kStaleBytes = 64 * kKiB;

/// Copies known content between devices' memory; zeros stay zeros without pages.
void move_row(std::uint64_t to, std::uint64_t from, Bytes bytes) {
  ContentMap& contents = memory().contents;
  if (contents.are_alike(to, from, bytes)) return;
  if (to - from < bytes || from - to < bytes) {
    // Content that is not kept must be zeros in the pages too.
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

/// Counts the host's read of a part whose content is not what the program wrote.
void count_read(std::uint64_t address, const ContentMap::Part& part) {
  if (part.content == Content::kNotKept) process::record_not_kept(part.bytes);
  if (part.content == Content::kNotComputed || part.content == Content::kNotUpdated) {
    process::record_not_computed(address, part.bytes, part.writer);
  }
}

}  // namespace

Side::Side(const Memory& state, std::uint64_t address, Bytes extent) {
  if (const auto* const block = block_at(state, address)) {
    describe_in(state, *block, address, extent);
  } else {
    describe_outside(state, address);
  }
}

/// For a range that begins in a block and ends in it, or in mapped memory that follows without a
/// gap.
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

/// Device addresses outside of allocations belong to nothing; all other addresses belong to the
/// host.
void Side::describe_outside(const Memory& state, std::uint64_t address) {
  if (reservation_at(state, address) != nullptr) {
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

void count_held(Memory& state, int device, Bytes bytes) {
  AddressSpace& space = state.spaces[device];
  space.held += bytes;
  space.peak = std::max(space.peak, space.held);
  process::record_memory(device, space.peak);
}

Side side_of(std::uint64_t address, Bytes bytes) {
  const Memory& state = memory();
  const Lock lock(state.mutex);
  return {state, address, bytes};
}

void fill(std::uint64_t address, const void* value, Bytes element_bytes, Bytes count) {
  auto* const start = reinterpret_cast<std::byte*>(address);
  if (element_bytes == 1) {
    std::memset(start, *static_cast<const unsigned char*>(value), count);
    return;
  }
  const Bytes bytes = element_bytes * count;
  std::memcpy(start, value, element_bytes);
  // Doubles the written part by copying it behind itself.
  for (Bytes done = element_bytes; done < bytes; done += std::min(done, bytes - done)) {
    std::memcpy(start + done, start, std::min(done, bytes - done));
  }
}

void keep(std::uint64_t address, Bytes bytes) {
  memory().stale.remove(address, bytes);
  memory().contents.assign(address, bytes, Content::kKept);
}

void drop(std::uint64_t address, Bytes bytes, Content content, kernels::WriterId writer) {
  Memory& state = memory();
  bool changes = false;
  for (Bytes done = 0; done < bytes;) {
    const ContentMap::Part part = state.contents.part(address + done, bytes - done);
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

bool is_unkept(std::uint64_t address, Bytes bytes) {
  const ContentMap::Part part = memory().contents.part(address, bytes);
  return !in_pages(part.content) && part.bytes == bytes;
}

void settle(ContentMap& contents, std::uint64_t start, Bytes bytes, UnknownParts& unknown) {
  for (Bytes done = 0; done < bytes;) {
    const ContentMap::Part part = contents.part(start + done, bytes - done);
    if (!is_known(part.content)) unknown.emplace_back(start + done, part);
    done += part.bytes;
  }
  contents.assign(start, bytes, Content::kKept);
}

void share_block(Memory& state, std::uint64_t start, Block& block, UnknownParts& unknown) {
  if (block.shared) return;
  state.stale.give_back(start, block.bytes);
  settle(state.contents, start, block.bytes, unknown);
  block.shared = true;
}

void record_shared(const UnknownParts& unknown) {
  for (const auto& [address, part] : unknown) count_read(address, part);
}

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

}  // namespace gpemu::memory
