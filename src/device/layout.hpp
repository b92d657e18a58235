// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "gpemu/device/node_state.hpp"
#include "gpemu/sim/clock_page.hpp"

/// The content of a node segment. Everything in it is trivially destructible, of fixed size, and
/// valid with any bytes at any address: no pointer, no lock, no enumeration. Whoever may write the
/// file may write anything, so readers check what never changes once, in a copy of their own, and
/// bound what changes at each use.
///
///     Header | FactsRecord[device_count]                          never changes
///     EngineRecord[device_count][kEngineCount]                    changes
///     ProcessRecord[process_capacity]
///     HoldingRecord[device_count][process_capacity]
///     SeatRecord[kSeatCapacity]
///     ClockPage                                                   at a page of its own
///
/// Which slots of the registry are in use is not in the file: a process holds open-file-description
/// locks (fcntl F_OFD_SETLK) on bytes far beyond the file's end, which the kernel releases when the
/// process ends.
///
/// Change kVersion with any change of this file. The header's fields up to `temporary` stay where
/// they are in all versions, so that each can remove the nodes of any other.
namespace gpemu::device::layout {

inline constexpr char kMagic[8] = {'G', 'P', 'E', 'M', 'U', 'N', 'O', 'D'};
inline constexpr std::uint32_t kVersion = 7;
inline constexpr std::uint32_t kMaxDevices = 4096;
inline constexpr std::uint32_t kProcessCapacity = 256;
inline constexpr std::size_t kNameBytes = 64;
inline constexpr std::size_t kSeatCapacity = 2048;
/// How many arrivals a seat keeps. A party that publishes arrival n knows the end of round
/// n - kArrivalsAhead, for which all others have published theirs, for which they know the end of
/// round n - 2 * kArrivalsAhead: nobody needs an older one.
inline constexpr std::size_t kArrivalsKept = 16;
inline constexpr std::size_t kArrivalsAhead = kArrivalsKept / 2;

/// Offset of the lock of slot 0 that says that somebody has taken the slot; the others follow.
inline constexpr std::int64_t kTakenLocks = std::int64_t{1} << 40;
/// Likewise of the locks that say that the holder of a slot lives and that its records count: taken
/// only when the records are clean of what the slot's last holder left.
inline constexpr std::int64_t kAliveLocks = kTakenLocks + kProcessCapacity;

/// Nobody waits for work of others that ends later than this: it is damage. Longer than any job
/// queues ahead.
inline constexpr Duration kLongestQueue = std::chrono::hours(24);

struct alignas(64) Header {
  char magic[8];
  std::uint32_t version;
  std::uint32_t header_bytes;
  std::uint64_t segment_bytes;
  std::uint32_t device_count;
  std::uint32_t process_capacity;
  std::uint8_t policy;     ///< a SharingPolicy.
  std::uint8_t temporary;  ///< 0 or 1.
  char name[kNameBytes];
  /// Of all bytes that never change, with zero in this place.
  std::uint64_t checksum;
};

/// What never changes of a device.
struct alignas(64) FactsRecord {
  char gpu[kNameBytes];
  char uuid[48];
  char pci_bus_id[32];
  std::uint64_t memory_bytes;
  double max_power_w;
  double idle_power_w;
  GpuFacts facts;
};

/// Time for which an engine stands still in the midst of what is queued. Written start first, over
/// one that ends before: who reads it meanwhile sees none.
struct GapRecord {
  std::atomic<std::int64_t> start_ns;
  std::atomic<std::int64_t> end_ns;
};

/// What was ever queued on an engine.
struct CountRecord {
  std::atomic<std::int64_t> busy_ns;  ///< the time that it takes.
  std::atomic<std::uint64_t> operations;
  std::atomic<std::uint64_t> bytes;  ///< copied.
};

/// The timeline of one engine. `tail_ns` only grows while processes live, by compare-and-swap, so
/// that nobody who dies can leave it locked. One beyond what the living published is of the dead,
/// or damage, and is cut.
struct alignas(64) EngineRecord {
  std::atomic<std::int64_t> tail_ns;  ///< when the engine has nothing left to do.
  /// By processes that gave their slots up, less what was dropped of all that died.
  CountRecord ended;
  /// The last gaps, in a ring; more ahead of an engine at once are taken for work.
  std::atomic<std::uint32_t> gap_count;
  GapRecord gaps[4];
};

/// Returns how much work an engine has between two times, neither of them behind its tail.
/// Requires: 0 <= from_ns.
[[nodiscard]] inline std::int64_t work_between(const EngineRecord& engine, std::int64_t from_ns,
                                               std::int64_t to_ns) {
  if (to_ns <= from_ns) return 0;
  std::int64_t work = to_ns - from_ns;
  for (const GapRecord& gap : engine.gaps) {
    const std::int64_t start = std::max(gap.start_ns.load(), from_ns);
    const std::int64_t end = std::min(gap.end_ns.load(), to_ns);
    if (start < end) work = std::max(work - (end - start), std::int64_t{0});
  }
  return work;
}

/// Who has a slot. Which slots count, the locks say.
struct alignas(64) ProcessRecord {
  std::atomic<std::uint32_t> used;  ///< 0: nobody had the slot since its last holder detached.
  std::atomic<std::int32_t> pid;
  /// In which the pid is one: the inode of its pid namespace; 0 when that is not known.
  std::atomic<std::uint64_t> pid_namespace;
  char name[32];
  /// Of this holder and no other one: a random number, and the slot in the lowest byte.
  std::atomic<std::uint64_t> identity;
  std::atomic<std::uint32_t> bell;  ///< others increment it when there is news, and wake.
  std::atomic<std::uint32_t>
      listening;  ///< 1: the holder waits for its bell; whoever rings clears it.
};

/// What one process has on one device. Its holder alone writes it, and keeps the truth in memory of
/// its own.
struct alignas(64) HoldingRecord {
  std::atomic<std::uint64_t> memory;
  std::atomic<std::int32_t> contexts;
  /// What this process has on one engine.
  struct Use {
    std::atomic<std::int64_t> tail_ns;  ///< never less than the end of its last work.
    CountRecord queued;
  };
  Use engines[kEngineCount];
};

/// What a party brings to a round.
struct ArrivalRecord {
  /// When it comes, unless the round before ends later.
  std::atomic<std::int64_t> time_ns;
  std::atomic<std::int64_t> cost_ns;
};

/// The seat of one party of a group (docs/design/rendezvous.md).
struct alignas(64) SeatRecord {
  /// 0: the seat is free. An identity with kReserved: of the group's creator, for a party that has
  /// not come yet. An identity: the party's process, which alone writes the rest. left(key): the
  /// party has left or died. Changes in this order only, by compare-and-swap.
  std::atomic<std::uint64_t> owner;
  std::atomic<std::uint64_t> key;    ///< of the group; means nothing in a free seat.
  std::atomic<std::uint64_t> count;  ///< of arrivals.
  ArrivalRecord arrivals[kArrivalsKept];
};
inline constexpr std::uint64_t kReserved = std::uint64_t{1} << 63;
inline constexpr std::uint64_t kLeft = std::uint64_t{1} << 62;
/// Returns the owner of a seat of that group whose party has left.
[[nodiscard]] constexpr std::uint64_t left(std::uint64_t key) {
  return (key & (kLeft - 1)) | kLeft;
}

static_assert(std::atomic<std::int64_t>::is_always_lock_free);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);
static_assert(std::is_trivially_copyable_v<GpuFacts>);
static_assert(std::is_trivially_copyable_v<Header> && std::is_trivially_copyable_v<FactsRecord>);

/// Where the parts of a segment with so many devices lie. Units: bytes from the file's start.
struct Offsets {
  explicit constexpr Offsets(std::uint64_t devices)
      : engines(sizeof(Header) + devices * sizeof(FactsRecord)),
        processes(engines + devices * kEngineCount * sizeof(EngineRecord)),
        holdings(processes + kProcessCapacity * sizeof(ProcessRecord)),
        seats(holdings + devices * kProcessCapacity * sizeof(HoldingRecord)),
        clock((seats + kSeatCapacity * sizeof(SeatRecord) + kPage - 1) / kPage * kPage),
        end(clock + sizeof(sim::ClockPage)) {}

  /// Programs map the clock alone. Source: the largest page of the processors that gpemu runs on.
  static constexpr std::uint64_t kPage = 65536;

  static constexpr std::uint64_t kFacts = sizeof(Header);
  std::uint64_t engines;
  std::uint64_t processes;
  std::uint64_t holdings;
  std::uint64_t seats;
  std::uint64_t clock;
  std::uint64_t end;
};

}  // namespace gpemu::device::layout
