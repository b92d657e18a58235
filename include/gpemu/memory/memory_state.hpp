// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "gpemu/base/mutex.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/cuda.h"
#include "gpemu/device/device.hpp"
#include "gpemu/device/pinned_memory.hpp"
#include "gpemu/memory/content.hpp"
#include "gpemu/memory/stale_pages.hpp"
#include "gpemu/process/made_once.hpp"
#include "gpemu/process/process.hpp"

namespace gpemu::memory {

/// Physical granularity. Source: 2 MiB for cudaMalloc on GPUs since Pascal, and in the result of
/// cuMemGetAllocationGranularity.
inline constexpr Bytes kPage = 2 * kMiB;

[[nodiscard]] constexpr bool whole_pages(std::uint64_t value) {
  return value % kPage == 0;
}

/// What took a block from a device. Decides how other processes may get it.
enum class Origin : std::uint8_t {
  kElsewhere,  ///< the host, another process, or physical memory that is mapped.
  kMalloc,
  kManaged,
  kPool,
  kVariable,  ///< a module's.
};

/// The memory at a range of addresses.
struct Block {
  Bytes bytes = 0;
  gpemu_cuda_memory_kind kind = GPEMU_CUDA_MEMORY_UNREGISTERED;
  Origin origin = Origin::kElsewhere;
  int device = 0;
  std::uint32_t flags = 0;
  std::uint64_t id = 0;
  device::DeviceAddress ledger = 0;            ///< in the device's ledger; 0 for host memory.
  std::optional<device::PinnedMemory> pinned;  ///< of host_alloc.
  std::uint64_t handle = 0;                    ///< of virtual memory management: what is mapped.
  Bytes offset = 0;                            ///< into the handle.
  bool exportable = false;                     ///< of the handle.
  std::map<int, std::uint32_t> access;         ///< of mapped memory, by device.
  /// Whether it may be written outside of this process's calls, so that its content is not known.
  bool shared = false;
};

/// Free addresses: start to size, no two adjacent.
using FreeRanges = std::map<std::uint64_t, Bytes>;

/// A page of a device's memory that small allocations share.
struct SharedPage {
  device::DeviceAddress ledger = 0;
  FreeRanges free;
};

/// Places of managed pages that are not devices, numbered as cudaCpuDeviceId and
/// cudaInvalidDeviceId.
inline constexpr int kHostPlace = -1, kNoPlace = -2;

/// Managed memory that the host and devices share: where its pages are, and what the program asked.
struct ManagedBlock {
  struct Page {
    int device = kHostPlace;
    device::DeviceAddress ledger = 0;  ///< 0 on the host.
    std::uint64_t arrival = 0;         ///< its number among all arrivals.
  };
  struct Advice {
    bool read_mostly = false;
    int preferred = kNoPlace;
    int prefetched = kNoPlace;
    std::set<int> accessed_by;
  };
  Bytes bytes = 0;
  std::vector<Page> pages;
  std::map<Bytes, Advice> advice;  ///< by offset; each goes on to the next one.
};

/// A page of managed memory, by its block's start and its number there.
struct ManagedPage {
  std::uint64_t start = 0;
  std::size_t index = 0;
};

/// The addresses of one device's memory. Content is in the host's memory, at the same address, in a
/// sparse file: pages that were never written read as zeros and take no memory.
struct AddressSpace {
  int descriptor = -1;
  std::uint64_t base = 0;
  Bytes size = 0;
  FreeRanges free;
  std::map<std::uint64_t, SharedPage> shared_pages;  ///< by start.
  std::map<std::uint64_t, ManagedPage> managed;      ///< managed pages on the device, by arrival.
  Bytes held = 0;
  Bytes peak = 0;
};

struct Memory {
  mutable Mutex mutex;
  std::map<std::uint64_t, Block> blocks GPEMU_GUARDED_BY(mutex);  ///< by start.
  /// Of virtual memory management.
  std::map<std::uint64_t, Bytes> reservations GPEMU_GUARDED_BY(mutex);
  std::map<int, AddressSpace> spaces GPEMU_GUARDED_BY(mutex);             ///< by device.
  std::map<std::uint64_t, ManagedBlock> managed GPEMU_GUARDED_BY(mutex);  ///< by start.
  std::uint64_t next_arrival GPEMU_GUARDED_BY(mutex) = 1;
  std::atomic<bool> has_managed{false};  ///< whether there ever was any; read without the lock.
  std::uint64_t next_id GPEMU_GUARDED_BY(mutex) = 1;
  ContentMap contents;
  StalePages stale;  ///< the only pages of memory that is not kept that may not be zeros.
};

[[nodiscard]] inline Memory& memory() {
  static constinit process::MadeOnce<Memory> made;
  return made.get();
}

[[nodiscard]] constexpr Bytes round_up(Bytes bytes, Bytes unit) {
  return (bytes + unit - 1) / unit * unit;
}

/// Returns a descriptor of a new sparse file of fixed size, or -1.
[[nodiscard]] int make_sparse_file(Bytes bytes);

/// Takes the first free range that is large enough; returns nothing if there is none.
[[nodiscard]] std::optional<std::uint64_t> take_range(FreeRanges& free, Bytes bytes);
void give_back_range(FreeRanges& free, std::uint64_t start, Bytes bytes);

/// Returns the block that holds an address, or null.
[[nodiscard]] const std::pair<const std::uint64_t, Block>* block_at(const Memory& state,
                                                                    std::uint64_t address)
    GPEMU_REQUIRES(state.mutex);

/// Returns the reservation of virtual memory that holds an address, or null.
[[nodiscard]] const std::pair<const std::uint64_t, Bytes>* reservation_at(const Memory& state,
                                                                          std::uint64_t address)
    GPEMU_REQUIRES(state.mutex);

/// Forgets registered memory that the program has since unmapped, because something else was just
/// mapped there.
void forget_unmapped(Memory& state, std::uint64_t start, Bytes bytes) GPEMU_REQUIRES(state.mutex);

}  // namespace gpemu::memory
