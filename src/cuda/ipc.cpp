// SPDX-License-Identifier: Apache-2.0
//
// Sharing between processes of one node: memory and times of events are in files without a name,
// which others open through /proc while their process runs. There is nothing to clean up.
#include "ipc.hpp"

#include <array>
#include <atomic>
#include <cstring>
#include <fcntl.h>
#include <optional>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>

#include "gpemu/base/mutex.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/memory/allocation.hpp"
#include "gpemu/memory/memory_content.hpp"
#include "gpemu/process/made_once.hpp"
#include "gpemu/streams/context.hpp"
#include "gpemu/streams/event_state.hpp"

namespace gpemu::cuda {

/// Pages of another process's file in this one.
struct Mapping {
  std::uint64_t inode = 0;
  Bytes offset = 0;
  std::uint64_t start = 0;
  Bytes bytes = 0;
  int users = 1;
};

/// The objects that this process shares with others, and they with it.
struct Imports {
  Mutex mutex;
  /// By the address given out.
  std::map<std::uint64_t, Mapping> memory GPEMU_GUARDED_BY(mutex);
  int descriptor GPEMU_GUARDED_BY(mutex) = -1;  ///< of the file of shared events.
  std::atomic<std::int64_t>* times GPEMU_GUARDED_BY(mutex) = nullptr;
  std::size_t used GPEMU_GUARDED_BY(mutex) = 0;  ///< of these.
  std::vector<std::size_t> free GPEMU_GUARDED_BY(mutex);
};

namespace {

constexpr Bytes kHostPage = 4096;

/// Events that a process shares at once. Source: PyTorch's limit is 1000.
constexpr std::size_t kMaxSharedEvents = 1 << 14;

constexpr std::uint32_t kInterprocess = 4;

enum class Kind : std::uint32_t { kMemory = 1, kEvent = 2 };

/// The content of a handle. It comes from another process and may be forged.
struct Ticket {
  std::array<char, 8> magic{};
  Kind kind = Kind::kMemory;
  std::int32_t process = 0;
  std::int32_t descriptor = -1;  ///< in that process.
  std::int32_t device = 0;       ///< in the node.
  std::uint64_t inode = 0;       ///< of the file, as descriptors are reused.
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t flags = 0;
};
constexpr std::array<char, 8> kMagic = {'g', 'p', 'e', 'm', 'u', 'i', 'p', 'c'};
static_assert(sizeof(Ticket) <= sizeof(gpemu_cuda_ipc));

Imports& imports() {
  static constinit process::MadeOnce<Imports> made;
  return made.get();
}

void write_ticket(Ticket ticket, gpemu_cuda_ipc* ipc) {
  struct stat file{};
  GPEMU_CHECK(::fstat(ticket.descriptor, &file) == 0, "shared memory has a file");
  ticket.magic = kMagic;
  ticket.process = ::getpid();
  ticket.inode = file.st_ino;
  *ipc = {};
  std::memcpy(ipc->bytes, &ticket, sizeof(ticket));
}

/// Reads the content of a handle and maps its file. Errors: INVALID_HANDLE, INVALID_CONTEXT for one
/// of this process.
process::Status map_ticket(const gpemu_cuda_ipc& ipc, Kind kind, Ticket* ticket, Mapping* mapping) {
  std::memcpy(ticket, ipc.bytes, sizeof(*ticket));
  if (ticket->magic != kMagic || ticket->kind != kind) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  if (ticket->process == ::getpid()) return GPEMU_CUDA_ERROR_INVALID_CONTEXT;
  const int opened =
      ::open(fmt::format("/proc/{}/fd/{}", ticket->process, ticket->descriptor).c_str(),
             O_RDWR | O_CLOEXEC);
  if (opened < 0) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  struct stat file{};
  const bool fits = ::fstat(opened, &file) == 0 && file.st_ino == ticket->inode &&
                    ::fcntl(opened, F_GET_SEALS) == (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) &&
                    ticket->bytes > 0 && ticket->offset <= static_cast<Bytes>(file.st_size) &&
                    ticket->bytes <= static_cast<Bytes>(file.st_size) - ticket->offset;
  const Bytes before = ticket->offset % kHostPage;
  void* mapped = MAP_FAILED;
  if (fits) {
    mapping->bytes = memory::round_up(before + ticket->bytes, kHostPage);
    mapped = ::mmap(nullptr, mapping->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                    opened, static_cast<off_t>(ticket->offset - before));
  }
  ::close(opened);
  if (mapped == MAP_FAILED) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  mapping->inode = ticket->inode;
  mapping->offset = ticket->offset;
  mapping->start = reinterpret_cast<std::uint64_t>(mapped);
  return GPEMU_CUDA_SUCCESS;
}

void unmap(const Mapping& mapping) {
  ::munmap(reinterpret_cast<void*>(mapping.start), mapping.bytes);
}

/// Returns the ordinal of the device at a place of the node, or nothing if this process does not
/// see it.
std::optional<int> ordinal_of(int place) {
  for (int ordinal = 0; ordinal < process::device_count(); ++ordinal) {
    if (process::device_at(ordinal).place == place) return ordinal;
  }
  return std::nullopt;
}

/// Gives an event a place for its time that others can map.
process::Status share_event(Imports& state, gpemu_cuda_event& event) GPEMU_REQUIRES(state.mutex) {
  constexpr Bytes kBytes = kMaxSharedEvents * sizeof(std::atomic<std::int64_t>);
  if (state.times == nullptr) {
    state.descriptor = memory::make_sparse_file(kBytes);
    if (state.descriptor < 0) return GPEMU_CUDA_ERROR_OPERATING_SYSTEM;
    void* const mapped =
        ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, state.descriptor, 0);
    if (mapped == MAP_FAILED) {
      ::close(state.descriptor);
      return GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
    }
    state.times = static_cast<std::atomic<std::int64_t>*>(mapped);
  }
  if (state.free.empty() && state.used == kMaxSharedEvents) return GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
  std::size_t place = state.used;
  if (state.free.empty()) {
    ++state.used;
  } else {
    place = state.free.back();
    state.free.pop_back();
  }
  state.times[place] = event.current().recorded() ? to_ns(event.current().moment().time()) : 0;
  event.shared_ns = &state.times[place];
  return GPEMU_CUDA_SUCCESS;
}

/// Forgets other processes' memory on a device whose context ends.
void close_imports(process::DeviceState& device) {
  Imports& state = imports();
  const Lock lock(state.mutex);
  memory::Memory& blocks = memory::memory();
  const Lock blocks_lock(blocks.mutex);
  std::erase_if(state.memory, [&](const auto& entry) GPEMU_REQUIRES(blocks.mutex) {
    const auto block = blocks.blocks.find(entry.first);
    if (block->second.device != device.ordinal) return false;
    blocks.blocks.erase(block);
    unmap(entry.second);
    return true;
  });
}

/// Errors: INVALID_VALUE, those of current_device, OUT_OF_MEMORY.
process::Status make_event(std::uint32_t flags, gpemu_cuda_event** event) {
  if (flags > streams::kAllEventFlags) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  process::DeviceState* device = nullptr;
  GPEMU_CUDA_TRY(streams::current_device(&device));
  *event = streams::create_event(*device, flags);
  return *event == nullptr ? GPEMU_CUDA_ERROR_OUT_OF_MEMORY : GPEMU_CUDA_SUCCESS;
}

}  // namespace

void stop_sharing(gpemu_cuda_event& event) {
  if (event.shared_ns == nullptr) return;
  Imports& state = imports();
  if (event.mapped_bytes != 0) {
    const auto address = reinterpret_cast<std::uint64_t>(event.shared_ns);
    unmap({.start = address / kHostPage * kHostPage, .bytes = event.mapped_bytes});
    return;
  }
  const Lock lock(state.mutex);
  state.free.push_back(static_cast<std::size_t>(event.shared_ns - state.times));
}

process::Status export_memory(std::uint64_t address, gpemu_cuda_ipc* ipc) {
  // Other processes see the pages from now on.
  memory::finish_moves(address);
  memory::UnknownParts unknown;
  memory::Memory& state = memory::memory();
  Lock lock(state.mutex);
  const auto* const found = memory::block_at(state, address);
  // Source: cuIpcGetMemHandle takes memory of cuMemAlloc. Of pools:
  // github.com/openucx/ucx/pull/10065; of cuMemCreate: openucx/ucx/issues/7110.
  if (found == nullptr || found->second.origin != memory::Origin::kMalloc) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  memory::Block& block = state.blocks.at(found->first);
  memory::share_block(state, found->first, block, unknown);
  const auto& space = state.spaces.at(block.device);
  write_ticket({.kind = Kind::kMemory,
                .descriptor = space.descriptor,
                .device = process::device_at(block.device).place,
                .offset = found->first - space.base,
                .bytes = block.bytes},
               ipc);
  lock.unlock();
  memory::record_shared(unknown);
  return GPEMU_CUDA_SUCCESS;
}

process::Status open_memory(const gpemu_cuda_ipc& ipc, std::uint64_t* address) {
  Ticket ticket;
  Mapping mapping;
  GPEMU_CUDA_TRY(map_ticket(ipc, Kind::kMemory, &ticket, &mapping));
  const auto ordinal = ordinal_of(ticket.device);
  process::DeviceState* device = nullptr;
  if (!ordinal || streams::device_with_context(*ordinal, &device) != GPEMU_CUDA_SUCCESS) {
    unmap(mapping);
    return GPEMU_CUDA_ERROR_INVALID_DEVICE;
  }
  device->end_with_context(process::ContextPart::kImports, close_imports);
  Imports& state = imports();
  const Lock lock(state.mutex);
  for (auto& [start, other] : state.memory) {
    if (other.inode != mapping.inode || other.offset != mapping.offset) continue;
    unmap(mapping);
    ++other.users;
    *address = start;
    return GPEMU_CUDA_SUCCESS;
  }
  *address = mapping.start + ticket.offset % kHostPage;
  state.memory.emplace(*address, mapping);
  memory::Memory& blocks = memory::memory();
  const Lock blocks_lock(blocks.mutex);
  memory::forget_unmapped(blocks, mapping.start, mapping.bytes);
  blocks.blocks.emplace(*address, memory::Block{.bytes = ticket.bytes,
                                                .kind = GPEMU_CUDA_MEMORY_DEVICE,
                                                .device = *ordinal,
                                                .id = blocks.next_id++,
                                                .shared = true});
  return GPEMU_CUDA_SUCCESS;
}

process::Status close_memory(std::uint64_t address) {
  memory::finish_moves(address);
  Imports& state = imports();
  const Lock lock(state.mutex);
  const auto found = state.memory.find(address);
  if (found == state.memory.end()) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  if (--found->second.users > 0) return GPEMU_CUDA_SUCCESS;
  memory::Memory& blocks = memory::memory();
  const Lock blocks_lock(blocks.mutex);
  blocks.blocks.erase(address);
  unmap(found->second);
  state.memory.erase(found);
  return GPEMU_CUDA_SUCCESS;
}

process::Status export_event(gpemu_cuda_event& event, gpemu_cuda_ipc* ipc) {
  if ((event.flags & kInterprocess) == 0 || event.mapped_bytes != 0) {
    return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  }
  Imports& state = imports();
  const Lock lock(state.mutex);
  if (event.shared_ns == nullptr) GPEMU_CUDA_TRY(share_event(state, event));
  const auto place = static_cast<std::size_t>(event.shared_ns - state.times);
  write_ticket({.kind = Kind::kEvent,
                .descriptor = state.descriptor,
                .offset = place * sizeof(*state.times),
                .bytes = sizeof(*state.times),
                .flags = event.flags},
               ipc);
  return GPEMU_CUDA_SUCCESS;
}

process::Status open_event(const gpemu_cuda_ipc& ipc, gpemu_cuda_event** event) {
  Ticket ticket;
  Mapping mapping;
  GPEMU_CUDA_TRY(map_ticket(ipc, Kind::kEvent, &ticket, &mapping));
  const auto flags = static_cast<std::uint32_t>(ticket.flags);
  gpemu_cuda_event* created = nullptr;
  const process::Status status = ticket.offset % sizeof(*created->shared_ns) == 0 &&
                                         ticket.bytes == sizeof(*created->shared_ns)
                                     ? make_event(flags, &created)
                                     : GPEMU_CUDA_ERROR_INVALID_HANDLE;
  if (status != GPEMU_CUDA_SUCCESS) {
    unmap(mapping);
    return status;
  }
  created->shared_ns =
      reinterpret_cast<std::atomic<std::int64_t>*>(mapping.start + ticket.offset % kHostPage);
  created->mapped_bytes = mapping.bytes;
  created->device = nullptr;
  *event = created;
  return GPEMU_CUDA_SUCCESS;
}

}  // namespace gpemu::cuda
