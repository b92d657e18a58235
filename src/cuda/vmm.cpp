// SPDX-License-Identifier: Apache-2.0
//
// Virtual memory management: physical memory is a range of a sparse file per device, so that its
// content appears where it is mapped, and other processes can map it.
#include "vmm.hpp"

#include <algorithm>
#include <array>
#include <fcntl.h>
#include <iterator>
#include <memory>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>

#include "gpemu/base/mutex.hpp"
#include "gpemu/base/undo.hpp"
#include "gpemu/memory/allocation.hpp"
#include "gpemu/memory/managed.hpp"
#include "gpemu/memory/memory_content.hpp"
#include "gpemu/process/attach.hpp"
#include "gpemu/process/made_once.hpp"
#include "gpemu/process/peer.hpp"
#include "gpemu/process/recorder.hpp"
#include "gpemu/streams/mover.hpp"
#include "gpemu/streams/waits.hpp"

#include "pool.hpp"

namespace gpemu::cuda {

struct File {
  int descriptor = -1;
  memory::AddressSpace ranges;
};

struct Physical {
  int device = 0;
  int descriptor = -1;
  Bytes offset = 0;
  Bytes bytes = 0;
  device::DeviceAddress ledger = 0;  ///< 0 if another process holds it.
  int references = 1;
  int mappings = 0;
  bool exportable = false;
  bool exported = false;
  /// Of memory that is not mapped, by offset.
  std::unique_ptr<memory::ContentMap> content = std::make_unique<memory::ContentMap>();
};

/// Guarded by the lock of memory().
struct PhysicalMemory {
  std::map<int, File> files;  ///< by device.
  std::map<std::uint64_t, Physical> physical;
  std::uint64_t next_handle = 1;
};

namespace {

/// How much larger the file is than the memory, so that ranges of unequal sizes fit.
constexpr Bytes kFileFactor = 4;

/// After the pages, the file has 8 bytes for each page: the size of the physical memory that begins
/// there, plus the device's number in the node, for a process that imports it.
constexpr Bytes kEntry = sizeof(std::uint64_t);

PhysicalMemory& physical_state() {
  static constinit process::MadeOnce<PhysicalMemory> made;
  return made.get();
}

File* file_of(const process::DeviceState& device) {
  File& file = physical_state().files[device.ordinal];
  if (file.descriptor >= 0) return &file;
  const Bytes size = memory::round_up(device.info.total_memory * kFileFactor, memory::kPage);
  file.ranges.free.emplace(0, size);
  const int descriptor = memory::make_sparse_file(size + size / memory::kPage * kEntry);
  if (descriptor < 0) return nullptr;
  file.descriptor = descriptor;
  file.ranges.size = size;
  return &file;
}

/// Ends physical memory without handles and mappings.
void end_if_unused(memory::Memory& state, std::map<std::uint64_t, Physical>::iterator found)
    GPEMU_REQUIRES(state.mutex) {
  Physical& physical = found->second;
  if (physical.references > 0 || physical.mappings > 0) return;
  if (physical.ledger == 0) {
    ::close(physical.descriptor);
  } else {
    const auto freed = process::device_at(physical.device).device->free(physical.ledger);
    GPEMU_CHECK(freed.has_value(), "the ledger knows physical memory");
    state.spaces[physical.device].held -= physical.bytes;
    process::record_allocation(physical.device, found->first,
                               -static_cast<std::int64_t>(physical.bytes));
    // Another process may still map exported memory, so its range is not reused.
    if (!physical.exported) {
      ::fallocate(physical.descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  static_cast<off_t>(physical.offset), static_cast<off_t>(physical.bytes));
      memory::give_back_range(physical_state().files[physical.device].ranges.free, physical.offset,
                              physical.bytes);
    }
  }
  physical_state().physical.erase(found);
}

/// Makes addresses inaccessible again.
void cover(std::uint64_t address, Bytes bytes) {
  void* const covered = ::mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  GPEMU_CHECK(covered != MAP_FAILED, "a reservation can be covered");
}

/// Copies the state of a range from one map to another.
void assign_as(memory::ContentMap& to, std::uint64_t to_start, const memory::ContentMap& from,
               std::uint64_t from_start, Bytes bytes) {
  for (Bytes done = 0; done < bytes;) {
    const memory::ContentMap::Part part = from.part(from_start + done, bytes - done);
    to.assign(to_start + done, part.bytes, part.content, part.writer);
    done += part.bytes;
  }
}

/// Requires: the block is mapped.
void unmap_block(memory::Memory& state, std::map<std::uint64_t, memory::Block>::iterator block)
    GPEMU_REQUIRES(state.mutex) {
  const Bytes bytes = block->second.bytes;
  const auto found = physical_state().physical.find(block->second.handle);
  state.stale.give_back(block->first, bytes);
  cover(block->first, bytes);
  assign_as(*found->second.content, block->second.offset, state.contents, block->first, bytes);
  state.contents.assign(block->first, bytes, memory::Content::kZeros);
  state.blocks.erase(block);
  --found->second.mappings;
  end_if_unused(state, found);
}

/// Shares physical memory, wherever it is mapped.
void share_physical(memory::Memory& state, std::uint64_t handle, Physical& physical,
                    memory::UnknownParts& unknown) GPEMU_REQUIRES(state.mutex) {
  for (auto& [start, block] : state.blocks) {
    if (block.handle == handle) memory::share_block(state, start, block, unknown);
  }
  memory::settle(*physical.content, 0, physical.bytes, unknown);
}

/// Returns whether mapped blocks make up a range exactly.
bool mapped_exactly(const memory::Memory& state, std::uint64_t address, Bytes bytes)
    GPEMU_REQUIRES(state.mutex) {
  Bytes covered = 0;
  while (covered < bytes) {
    const auto block = state.blocks.find(address + covered);
    if (block == state.blocks.end() || block->second.handle == 0) return false;
    covered += block->second.bytes;
  }
  return covered == bytes;
}

/// Returns whether a range lies in a reservation.
bool reserved(const memory::Memory& state, std::uint64_t address, Bytes bytes)
    GPEMU_REQUIRES(state.mutex) {
  const auto* const found = memory::reservation_at(state, address);
  return found != nullptr && bytes <= found->second - (address - found->first);
}

/// Returns whether any block lies in a range of a reservation.
bool occupied(const memory::Memory& state, std::uint64_t address, Bytes bytes)
    GPEMU_REQUIRES(state.mutex) {
  const auto next = state.blocks.lower_bound(address);
  if (next != state.blocks.end() && next->first - address < bytes) return true;
  if (next == state.blocks.begin()) return false;
  const auto before = std::prev(next);
  return address - before->first < before->second.bytes;
}

/// Ends physical memory of a device, with its mappings.
void release_physical_memory(process::DeviceState& device) {
  memory::Memory& state = memory::memory();
  const Lock lock(state.mutex);
  for (auto block = state.blocks.begin(); block != state.blocks.end();) {
    const auto next = std::next(block);
    if (block->second.handle != 0 && block->second.device == device.ordinal) {
      unmap_block(state, block);
    }
    block = next;
  }
  auto& all = physical_state().physical;
  for (auto found = all.begin(); found != all.end();) {
    const auto next = std::next(found);
    if (found->second.device == device.ordinal) {
      found->second.references = 0;
      end_if_unused(state, found);
    }
    found = next;
  }
}

/// Blocks until no unfinished copy touches physical memory, wherever it is mapped. Requires: not
/// the lock.
void finish_moves_on(std::uint64_t handle) {
  if (!streams::mover().busy()) return;
  std::vector<kernels::Access> mapped;
  {
    const memory::Memory& state = memory::memory();
    const Lock lock(state.mutex);
    for (const auto& [start, block] : state.blocks) {
      if (block.handle != 0 && block.handle == handle) {
        mapped.push_back({.start = start, .bytes = block.bytes, .writes = true});
      }
    }
  }
  streams::wait_for_moves_on(mapped);
}

}  // namespace

process::Status create_physical(process::DeviceState& device, Bytes bytes, bool exportable,
                                std::uint64_t* handle) {
  if (bytes > device.info.total_memory) return GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
  auto ledger = device.device->allocate(bytes);
  if (!ledger && reclaim_pooled(device)) ledger = device.device->allocate(bytes);
  if (!ledger) {
    const Lock lock(memory::memory().mutex);
    if (memory::evict_managed(memory::memory(), device, bytes))
      ledger = device.device->allocate(bytes);
  }
  if (!ledger) return GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
  Undo charge([&] { static_cast<void>(device.device->free(*ledger)); });
  memory::Memory& state = memory::memory();
  const Lock lock(state.mutex);
  File* const file = file_of(device);
  const auto offset = file == nullptr ? std::nullopt : memory::take_range(file->ranges.free, bytes);
  if (!offset) return GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
  device.end_with_context(process::ContextPart::kPhysicalMemory, release_physical_memory);
  PhysicalMemory& physical = physical_state();
  *handle = physical.next_handle++;
  physical.physical.emplace(*handle, Physical{.device = device.ordinal,
                                              .descriptor = file->descriptor,
                                              .offset = *offset,
                                              .bytes = bytes,
                                              .ledger = *ledger,
                                              .exportable = exportable});
  charge.keep();
  memory::count_held(state, device.ordinal, bytes);
  process::record_allocation(device.ordinal, *handle, static_cast<std::int64_t>(bytes));
  return GPEMU_CUDA_SUCCESS;
}

process::Status release_physical(std::uint64_t handle) {
  memory::Memory& state = memory::memory();
  const Lock lock(state.mutex);
  const auto found = physical_state().physical.find(handle);
  if (found == physical_state().physical.end() || found->second.references == 0) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  --found->second.references;
  end_if_unused(state, found);
  return GPEMU_CUDA_SUCCESS;
}

process::Status retain_physical(std::uint64_t address, std::uint64_t* handle) {
  memory::Memory& state = memory::memory();
  const Lock lock(state.mutex);
  if (!occupied(state, address, 1)) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  const memory::Block& block = std::prev(state.blocks.upper_bound(address))->second;
  if (block.handle == 0) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  ++physical_state().physical.at(block.handle).references;
  *handle = block.handle;
  return GPEMU_CUDA_SUCCESS;
}

process::Status describe_physical(std::uint64_t handle, int* device, bool* exportable) {
  const memory::Memory& state = memory::memory();
  const Lock lock(state.mutex);
  const auto found = physical_state().physical.find(handle);
  if (found == physical_state().physical.end()) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  *device = found->second.device;
  *exportable = found->second.exportable;
  return GPEMU_CUDA_SUCCESS;
}

process::Status reserve_addresses(Bytes bytes, Bytes alignment, std::uint64_t* address) {
  // More than any process can address.
  constexpr Bytes kMost = Bytes{1} << 47;
  const Bytes aligned = std::max(alignment, memory::kPage);
  if (bytes > kMost || aligned > kMost) return GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
  void* const range = ::mmap(nullptr, bytes + aligned, PROT_NONE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) return GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
  const auto start = reinterpret_cast<std::uint64_t>(range);
  const std::uint64_t first = memory::round_up(start, aligned);
  if (first > start) ::munmap(range, first - start);
  if (start + aligned > first) {
    ::munmap(reinterpret_cast<void*>(first + bytes), start + aligned - first);
  }
  memory::Memory& state = memory::memory();
  const Lock lock(state.mutex);
  memory::forget_unmapped(state, first, bytes);
  state.reservations.emplace(first, bytes);
  *address = first;
  return GPEMU_CUDA_SUCCESS;
}

process::Status release_addresses(std::uint64_t address, Bytes bytes) {
  memory::Memory& state = memory::memory();
  const Lock lock(state.mutex);
  const auto found = state.reservations.find(address);
  if (found == state.reservations.end() || found->second != bytes ||
      occupied(state, address, bytes)) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  state.reservations.erase(found);
  ::munmap(reinterpret_cast<void*>(address), bytes);
  return GPEMU_CUDA_SUCCESS;
}

process::Status map_physical(std::uint64_t address, Bytes bytes, Bytes offset,
                             std::uint64_t handle) {
  // The content of memory that is mapped twice is in the pages.
  finish_moves_on(handle);
  memory::UnknownParts unknown;
  memory::Memory& state = memory::memory();
  Lock lock(state.mutex);
  const auto found = physical_state().physical.find(handle);
  if (found == physical_state().physical.end() || bytes == 0 || !memory::whole_pages(address) ||
      !memory::whole_pages(bytes) || !memory::whole_pages(offset) || offset > found->second.bytes ||
      bytes > found->second.bytes - offset || !reserved(state, address, bytes) ||
      occupied(state, address, bytes)) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  Physical& physical = found->second;
  void* const mapped = ::mmap(reinterpret_cast<void*>(address), bytes, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_NORESERVE | MAP_FIXED, physical.descriptor,
                              static_cast<off_t>(physical.offset + offset));
  if (mapped == MAP_FAILED) {
    cover(address, bytes);
    return GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
  }
  const bool shared = physical.mappings > 0 || physical.exported;
  if (shared) share_physical(state, handle, physical, unknown);
  ++physical.mappings;
  assign_as(state.contents, address, *physical.content, offset, bytes);
  physical.content->assign(offset, bytes, memory::Content::kZeros);
  state.blocks.emplace(address, memory::Block{.bytes = bytes,
                                              .kind = GPEMU_CUDA_MEMORY_DEVICE,
                                              .device = physical.device,
                                              .id = state.next_id++,
                                              .handle = handle,
                                              .offset = offset,
                                              .exportable = physical.exportable,
                                              .shared = shared});
  lock.unlock();
  memory::record_shared(unknown);
  return GPEMU_CUDA_SUCCESS;
}

process::Status unmap_physical(std::uint64_t address, Bytes bytes) {
  streams::wait_for_moves_on(
      std::array{kernels::Access{.start = address, .bytes = bytes, .writes = true}});
  memory::Memory& state = memory::memory();
  const Lock lock(state.mutex);
  if (bytes == 0 || !mapped_exactly(state, address, bytes)) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  for (Bytes done = 0; done < bytes;) {
    const auto block = state.blocks.find(address + done);
    done += block->second.bytes;
    unmap_block(state, block);
  }
  return GPEMU_CUDA_SUCCESS;
}

process::Status set_access(std::uint64_t address, Bytes bytes, int device, std::uint32_t access) {
  memory::Memory& state = memory::memory();
  const Lock lock(state.mutex);
  if (bytes == 0 || (access != 0 && access != 1 && access != 3) ||
      !mapped_exactly(state, address, bytes)) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  for (Bytes done = 0; access != 0 && done < bytes;) {
    const memory::Block& block = state.blocks.at(address + done);
    if (block.device != device &&
        !process::can_access(process::device_at(device), process::device_at(block.device))) {
      return GPEMU_CUDA_ERROR_INVALID_DEVICE;
    }
    done += block.bytes;
  }
  for (Bytes done = 0; done < bytes;) {
    memory::Block& block = state.blocks.at(address + done);
    block.access[device] = access;
    done += block.bytes;
  }
  return GPEMU_CUDA_SUCCESS;
}

process::Status get_access(std::uint64_t address, int device, std::uint32_t* access) {
  const memory::Memory& state = memory::memory();
  const Lock lock(state.mutex);
  if (!occupied(state, address, 1)) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  const memory::Block& block = std::prev(state.blocks.upper_bound(address))->second;
  if (block.handle == 0) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  const auto found = block.access.find(device);
  *access = found == block.access.end() ? 0 : found->second;
  return GPEMU_CUDA_SUCCESS;
}

process::Status export_physical(std::uint64_t handle, int* file_descriptor) {
  finish_moves_on(handle);
  memory::UnknownParts unknown;
  memory::Memory& state = memory::memory();
  Lock lock(state.mutex);
  const auto found = physical_state().physical.find(handle);
  if (found == physical_state().physical.end() || !found->second.exportable) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  Physical& physical = found->second;
  struct stat file{};
  if (::fstat(physical.descriptor, &file) != 0) return GPEMU_CUDA_ERROR_OPERATING_SYSTEM;
  const Bytes pages = static_cast<Bytes>(file.st_size) / (memory::kPage + kEntry);
  const std::uint64_t entry =
      physical.bytes + static_cast<std::uint64_t>(process::device_at(physical.device).place);
  // A separate open file description, whose position is the beginning of the memory.
  const int opened =
      ::open(fmt::format("/proc/self/fd/{}", physical.descriptor).c_str(), O_RDWR | O_CLOEXEC);
  if (opened < 0) return GPEMU_CUDA_ERROR_OPERATING_SYSTEM;
  if (::pwrite(
          opened, &entry, sizeof(entry),
          static_cast<off_t>(pages * memory::kPage + physical.offset / memory::kPage * kEntry)) !=
          static_cast<ssize_t>(sizeof(entry)) ||
      ::lseek(opened, static_cast<off_t>(physical.offset), SEEK_SET) < 0) {
    ::close(opened);
    return GPEMU_CUDA_ERROR_OPERATING_SYSTEM;
  }
  physical.exported = true;
  share_physical(state, handle, physical, unknown);
  *file_descriptor = opened;
  lock.unlock();
  memory::record_shared(unknown);
  return GPEMU_CUDA_SUCCESS;
}

process::Status import_physical(int file_descriptor, std::uint64_t* handle) {
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  struct stat file{};
  const off_t offset = ::lseek(file_descriptor, 0, SEEK_CUR);
  if (offset < 0 || ::fcntl(file_descriptor, F_GET_SEALS) != kSeals ||
      ::fstat(file_descriptor, &file) != 0) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  const Bytes pages = static_cast<Bytes>(file.st_size) / (memory::kPage + kEntry);
  const auto begin = static_cast<Bytes>(offset);
  std::uint64_t entry = 0;
  if (!memory::whole_pages(begin) || begin / memory::kPage >= pages ||
      ::pread(file_descriptor, &entry, sizeof(entry),
              static_cast<off_t>(pages * memory::kPage + begin / memory::kPage * kEntry)) !=
          static_cast<ssize_t>(sizeof(entry))) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  const Bytes bytes = entry / memory::kPage * memory::kPage;
  if (bytes == 0 || bytes > pages * memory::kPage - begin) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  int device = 0;
  while (device < process::device_count() &&
         process::device_at(device).place != static_cast<int>(entry % memory::kPage)) {
    ++device;
  }
  if (device == process::device_count()) return GPEMU_CUDA_ERROR_INVALID_DEVICE;
  const int own = ::fcntl(file_descriptor, F_DUPFD_CLOEXEC, 0);
  if (own < 0) return GPEMU_CUDA_ERROR_OPERATING_SYSTEM;
  process::device_at(device).end_with_context(process::ContextPart::kPhysicalMemory,
                                              release_physical_memory);
  memory::Memory& state = memory::memory();
  const Lock lock(state.mutex);
  PhysicalMemory& physical = physical_state();
  *handle = physical.next_handle++;
  physical.physical.emplace(*handle, Physical{.device = device,
                                              .descriptor = own,
                                              .offset = begin,
                                              .bytes = bytes,
                                              .exportable = true,
                                              .exported = true});
  return GPEMU_CUDA_SUCCESS;
}

}  // namespace gpemu::cuda
