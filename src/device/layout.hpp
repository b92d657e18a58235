// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <pthread.h>
#include <type_traits>

#include "gpemu/device/node.hpp"

/// The content of a node segment. Everything in it is trivially destructible, of fixed size, and
/// valid at any address. Several processes map it at once, so what changes is atomic or behind a
/// robust mutex.
///
///     Header | DeviceRecord[device_count] | ProcessRecord[process_capacity]
///            | HoldingRecord[process_capacity][device_count]
///
/// Change kVersion with any change of this file. The header's fields up to `temporary` stay where
/// they are in all versions, so that each can remove the nodes of any other.
namespace gpemu::device::layout {

inline constexpr char kMagic[8] = {'G', 'P', 'E', 'M', 'U', 'N', 'O', 'D'};
inline constexpr std::uint32_t kVersion = 3;
inline constexpr std::uint32_t kMaxDevices = 4096;
inline constexpr std::uint32_t kProcessCapacity = 256;
inline constexpr std::size_t kNameBytes = 64;

struct alignas(64) Header {
  char magic[8];
  std::uint32_t version;
  std::uint32_t header_bytes;
  std::uint64_t segment_bytes;
  std::uint32_t device_count;
  std::uint32_t process_capacity;
  SharingPolicy policy;
  bool temporary;
  char name[kNameBytes];
  /// Guards which processes are registered.
  pthread_mutex_t registry_mutex;
};

/// Time for which an engine stands still in the midst of what is queued. Written start first, over
/// one that ends before: who reads it meanwhile sees none.
struct GapRecord {
  std::atomic<std::int64_t> start_ns;
  std::atomic<std::int64_t> end_ns;
};

/// The timeline of one engine. `tail_ns` only grows while processes live, by compare-and-swap, so
/// that nobody who dies can leave it locked.
struct alignas(64) EngineRecord {
  std::atomic<std::int64_t> tail_ns;  ///< when the engine has nothing left to do.
  std::atomic<std::int64_t> busy_ns;  ///< all work ever queued, less what was dropped.
  std::atomic<std::uint64_t> operations;
  std::atomic<std::uint64_t> bytes;
  /// The last gaps, in a ring; more ahead of an engine at once are taken for work.
  std::atomic<std::uint32_t> gap_count;
  GapRecord gaps[4];
};

/// Returns how much work an engine has between two times, neither of them behind its tail.
[[nodiscard]] inline std::int64_t work_between(const EngineRecord& engine, std::int64_t from_ns,
                                               std::int64_t to_ns) {
  std::int64_t work = to_ns - from_ns;
  for (const GapRecord& gap : engine.gaps) {
    const std::int64_t start = std::max(gap.start_ns.load(), from_ns);
    const std::int64_t end = std::min(gap.end_ns.load(), to_ns);
    work -= std::max(end - start, std::int64_t{0});
  }
  return std::max(work, std::int64_t{0});
}

struct alignas(64) DeviceRecord {
  char gpu[kNameBytes];
  char uuid[48];
  char pci_bus_id[32];
  std::uint64_t memory_bytes;
  double max_power_w;
  double idle_power_w;
  GpuFacts facts;
  /// Guards memory_used and the holdings' memory.
  pthread_mutex_t ledger_mutex;
  /// The sum of all holdings; computed anew when somebody died while changing it.
  std::atomic<std::uint64_t> memory_used;
  EngineRecord engines[kEngineCount];
};

/// One attachment of a process. Guarded by the registry mutex.
struct alignas(64) ProcessRecord {
  std::atomic<bool> live;
  std::int32_t pid;
  std::uint64_t start_time;  ///< tells a process from a later one with the same pid.
  char name[32];
};

/// What one process has on one device. While the process lives, it alone writes the times.
struct alignas(64) HoldingRecord {
  std::atomic<std::uint64_t> memory;
  std::atomic<std::int32_t> contexts;
  /// Never less than the end of this process's last work on each engine.
  std::atomic<std::int64_t> engine_tail_ns[kEngineCount];
  /// All work that this process ever queued on each engine.
  std::atomic<std::int64_t> engine_busy_ns[kEngineCount];
};

static_assert(std::atomic<std::int64_t>::is_always_lock_free);
static_assert(std::atomic<bool>::is_always_lock_free);
static_assert(std::is_trivially_copyable_v<GpuFacts>);

[[nodiscard]] constexpr std::uint64_t segment_bytes(std::uint64_t devices) {
  return sizeof(Header) + devices * sizeof(DeviceRecord) +
         kProcessCapacity * (sizeof(ProcessRecord) + devices * sizeof(HoldingRecord));
}

}  // namespace gpemu::device::layout
