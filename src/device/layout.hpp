// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "gpemu/device/node_state.hpp"
#include "gpemu/profile/fault_plan.hpp"
#include "gpemu/sim/clock_page.hpp"

/// The content of a node segment. Everything in it is trivially destructible, of fixed size, and
/// valid with any bytes at any address: it has no pointer, no lock and no enumeration. Anyone who
/// may write the file can write anything into it. So readers copy and check the part that never
/// changes once, and bound each changing value at each use.
///
///     Header | FactsRecord[device_count] | topology | faults      never changes
///     EngineRecord[places][kEngineCount]                          changes
///     ProcessRecord[process_capacity]
///     HoldingRecord[places][process_capacity]
///     SeatRecord[kSeatCapacity]
///     FaultRecord[profile::kMostFaults]
///     SettingsRecord[device_count]
///     PowerTable[device_count]
///     LinkRecord[device_count]
///     SliceTable[places]                                          only if has_slice_tables()
///     MigTable[device_count]                                      only for the policy kMig
///     ClockPage                                                   at a page of its own
///
/// The file does not say which slots of the registry are in use. Instead, a process holds
/// open-file-description locks (fcntl F_OFD_SETLK) on bytes far beyond the file's end, which the
/// kernel releases when the process ends.
///
/// A place is where processes use something: the devices, then, for the policy kMig, kMigPlaces for
/// each device.
///
/// The version is a hash of this file and of those whose structs it holds, without comments
/// (CMakeLists.txt): builds that differ in them never read each other's segments. The header's
/// fields up to `temporary` stay where they are in all versions, so that each can remove the nodes
/// of any other.
namespace gpemu::device::layout {

inline constexpr char kMagic[8] = {'G', 'P', 'E', 'M', 'U', 'N', 'O', 'D'};
inline constexpr std::uint32_t kVersion = GPEMU_SEGMENT_VERSION;
inline constexpr std::uint32_t kMaxDevices = 4096;
inline constexpr std::uint32_t kProcessCapacity = 256;
inline constexpr std::size_t kNameBytes = 64;
/// Of the text that describes the topology. Source: hundreds of times the longest of
/// catalog/topologies/.
inline constexpr std::uint32_t kMaxTopologyBytes = 1 << 20;
/// Of the text that describes the faults. Source: hundreds of times what kMostFaults take.
inline constexpr std::uint32_t kMaxFaultsBytes = 1 << 20;
inline constexpr std::size_t kSeatCapacity = 1024;
/// How many arrivals a seat keeps. A party that publishes arrival n knows the end of round n -
/// kArrivalsAhead. So all others have published their arrival at that round, which means that they
/// know the end of round n - 2 * kArrivalsAhead: nobody needs an older arrival.
inline constexpr std::size_t kArrivalsKept = 64;
inline constexpr std::size_t kArrivalsAhead = kArrivalsKept / 2;

/// Offset of slot 0's lock, which says that a process has taken the slot. The other slots follow.
inline constexpr std::int64_t kTakenLocks = std::int64_t{1} << 40;
/// Offset of the locks that say that a slot's holder lives and that its records count. The holder
/// takes it only after it has cleared the records of the slot's last holder.
inline constexpr std::int64_t kAliveLocks = kTakenLocks + kProcessCapacity;

/// No process waits for others' work that ends later than this: it is damage. Longer than any job
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
  std::uint32_t topology_bytes;  ///< 0: no topology is described.
  std::uint32_t faults_bytes;    ///< 0: there are none.
  std::int64_t made_ns;          ///< when the node was made, on its clock.
  /// Of all bytes that never change, with zero in this field.
  std::uint64_t checksum;
  std::int64_t quantum_ns;  ///< of time slices; kUsual: what is usual for each GPU.
  std::int64_t context_switch_ns;
  static constexpr std::int64_t kUsual = -1;
};

/// The properties of a device that never change.
struct alignas(64) FactsRecord {
  char gpu[kNameBytes];
  char uuid[48];
  char pci_bus_id[32];
  std::uint64_t memory_bytes;
  double max_power_w;
  double idle_power_w;
  GpuFacts facts;
};

/// A time for which an engine is idle although work is queued after it. The start is written first,
/// over a gap that ends earlier: a concurrent reader sees no gap.
struct GapRecord {
  std::atomic<std::int64_t> start_ns;
  std::atomic<std::int64_t> end_ns;
};

/// Counts of all work that was ever queued on an engine.
struct CountRecord {
  std::atomic<std::int64_t> busy_ns;  ///< the time that it takes.
  std::atomic<std::uint64_t> operations;
  std::atomic<std::uint64_t> bytes;  ///< copied.
};

/// The timeline of one engine. While processes live, `tail_ns` only grows, by compare-and-swap, so
/// a process that dies cannot leave it locked. A tail after all that living processes have
/// published belongs to dead ones, or is damage, and is cut.
struct alignas(64) EngineRecord {
  std::atomic<std::int64_t> tail_ns;  ///< the end of the engine's queue.
  /// By processes that gave up their slots, less the dropped work of all that died.
  CountRecord ended;
  std::atomic<std::int64_t> ended_ns_of[kMostTenants];  ///< its busy time, by tenant.
  /// The last gaps, in a ring. If an engine has more gaps ahead, the others count as work.
  std::atomic<std::uint32_t> gap_count;
  GapRecord gaps[4];
};

/// Returns how much work an engine has between two times, neither of them after its tail. Requires:
/// 0 <= begin_ns.
[[nodiscard]] inline std::int64_t work_between(const EngineRecord& engine, std::int64_t begin_ns,
                                               std::int64_t end_ns) {
  if (end_ns <= begin_ns) return 0;
  std::int64_t work = end_ns - begin_ns;
  for (const GapRecord& gap : engine.gaps) {
    const std::int64_t start = std::max(gap.start_ns.load(), begin_ns);
    const std::int64_t end = std::min(gap.end_ns.load(), end_ns);
    if (start < end) work = std::max(work - (end - start), std::int64_t{0});
  }
  return work;
}

/// The holder of a slot. The locks say which slots count.
struct alignas(64) ProcessRecord {
  std::atomic<std::uint32_t> used;  ///< 0: not used since the slot's last holder detached.
  std::atomic<std::int32_t> pid;
  /// The pid's namespace: its inode, or 0 if that is not known.
  std::atomic<std::uint64_t> pid_namespace;
  char name[32];
  /// Identifies this holder: a random number, with the slot in the lowest byte.
  std::atomic<std::uint64_t> identity;
  std::atomic<std::uint32_t> bell;  ///< others increment it when there is news, then wake.
  std::atomic<std::uint32_t>
      listening;  ///< 1: the holder waits for its bell; the process that rings clears it.
};

/// What one process has on one device. Only its holder writes it; the original is in the holder's
/// own memory.
struct alignas(64) HoldingRecord {
  std::atomic<std::uint64_t> memory;
  std::atomic<std::int32_t> contexts;
  std::atomic<std::uint32_t> is_mps_client;  ///< 0 or 1.
  std::atomic<std::uint32_t> tenant;         ///< see ComputeShare.
  /// What this process has on one engine.
  struct Use {
    std::atomic<std::int64_t> tail_ns;  ///< never less than the end of its last work.
    CountRecord queued;
  };
  Use engines[kEngineCount];
};

/// Returns whether processes share the compute engines of devices as SlicedSharing does.
[[nodiscard]] constexpr bool has_slice_tables(SharingPolicy policy) {
  return uses_time_slices(policy) || is_side_by_side(policy) || policy == SharingPolicy::kMig;
}

/// Processes with contexts on a device that processes share by time slices. Source: the 60 clients
/// of an MPS server, and a few processes beside them.
inline constexpr std::size_t kMostSharers = 64;

/// A state of the time slices of a device's compute engine. Source of the size: TimeSlices.
struct alignas(64) SliceState {
  std::atomic<std::int64_t> words[8 + 122 * kMostSharers];
};

/// The time slices of a device's compute engine (docs/design/time-slices.md).
struct alignas(64) SliceTable {
  std::atomic<std::uint64_t> current;  ///< which state counts, and a count of changes.
  /// The identities of the processes to which pairs of states belong; 0: to none.
  std::atomic<std::uint64_t> owners[kMostSharers];
  SliceState states[2 * kMostSharers];
};

/// Returns the size of a table with only so many of its states.
[[nodiscard]] constexpr std::size_t offset_of_slices(std::size_t states) {
  return sizeof(SliceTable) - (2 * kMostSharers - states) * sizeof(SliceState);
}

/// Places of a device for its MIG devices. Source: memory slices of a GPU.
inline constexpr std::size_t kMigPlaces = 8;

/// The instances into which MIG divides a device: a MigLayout::Words.
struct alignas(64) MigState {
  std::atomic<std::uint64_t> words[kMigPlaces];
};

/// The instances of a device, with two states for each slot of the registry.
struct alignas(64) MigTable {
  std::atomic<std::uint64_t> current;  ///< which state counts, and a count of changes.
  MigState states[std::size_t{2} * kProcessCapacity];
};

/// An arrival of a party at a round: the later of a time, and so much after the end of an earlier
/// round of the group. It is final if it says so, and once that has passed; before that, the party
/// may take it back.
struct ArrivalRecord {
  std::atomic<std::int64_t> time_ns;
  std::atomic<std::int64_t> after_ns;
  std::atomic<std::uint32_t> rounds_back;  ///< to that earlier round; 0: there is none.
  std::atomic<std::uint32_t> is_final;     ///< 0 or 1.
  std::atomic<std::int64_t> cost_ns;
  std::atomic<std::int64_t> published_ns;  ///< when it was written.
  std::atomic<std::uint64_t> pattern;      ///< what the party does: a RoundWork.
  std::atomic<std::uint64_t> width, gives, needs;
};

/// The seat of one party of a group (docs/design/rendezvous.md).
struct alignas(64) SeatRecord {
  /// 0: the seat is free. An identity with kReserved: of the group's creator, for a party that has
  /// not come yet. An identity: the party's process, which alone writes the rest. left(key): the
  /// party has left or died. The value changes only in this order, by compare-and-swap.
  std::atomic<std::uint64_t> owner;
  std::atomic<std::uint64_t> key;    ///< of the group; has no meaning in a free seat.
  std::atomic<std::uint64_t> count;  ///< of arrivals.
  /// How often the party has taken arrivals back, written after the count. Ignore what was read
  /// before and after a change.
  std::atomic<std::uint64_t> changes;
  /// If the party's process listens: the round at which all must have arrived before it is rung.
  std::atomic<std::uint64_t> wanted;
  ArrivalRecord arrivals[kArrivalsKept];
};
inline constexpr std::uint64_t kReserved = std::uint64_t{1} << 63;
inline constexpr std::uint64_t kLeft = std::uint64_t{1} << 62;
/// Returns the owner value of a seat of that group whose party has left.
[[nodiscard]] constexpr std::uint64_t left(std::uint64_t key) {
  return (key & (kLeft - 1)) | kLeft;
}

/// What has come of a fault that begins by count, at the fault's place in the plan.
struct alignas(16) FaultRecord {
  std::atomic<std::int64_t> begun_ns;  ///< 0: it has not begun.
  std::atomic<std::uint64_t> count;    ///< of what it waits for.
};

/// The settings of a device, which anyone may change at any time. Zero is what a driver begins
/// with.
struct alignas(64) SettingsRecord {
  std::atomic<std::uint32_t> compute_mode;  ///< a ComputeMode.
  std::atomic<std::uint32_t> time_slice;    ///< a TimeSliceLength.
  /// Of the policy kMig: 1 if MIG does not divide the device, plus 2 if it will not.
  std::atomic<std::uint32_t> mig_mode;
};

/// The power settings of a device from a time on, and sums up to that time. Any value is valid; a
/// zero is the default.
struct alignas(64) PowerState {
  std::atomic<std::uint64_t> number;  ///< written last; 0: the state is not there.
  std::atomic<std::int64_t> time_ns;
  std::atomic<std::int64_t> busy_ns;    ///< of the compute engine,
  std::atomic<std::int64_t> capped_ns;  ///< of which the power limit held its clock down.
  std::atomic<double> energy_j;
  std::atomic<double> limit_w;
  std::atomic<double> clock_mhz;  ///< to which the clock is locked.
};
inline constexpr std::size_t kPowerStates = 8;

/// The last power settings of a device, in a ring. Whoever changes them takes the next number, by
/// compare-and-swap, and then writes the state at its place; the highest number counts.
struct alignas(64) PowerTable {
  std::atomic<std::uint64_t> taken;  ///< the last number that was taken; 0: nothing was changed.
  PowerState states[kPowerStates];
};

/// Bytes that went over the links of a device. Any value is valid.
struct alignas(64) LinkRecord {
  struct Count {
    std::atomic<std::uint64_t> sent;
    std::atomic<std::uint64_t> received;
  };
  Count pcie;  ///< to and from other devices; copies to and from the host are counted by engine.
  Count nvlinks[kMostNvlinks];
};

static_assert(std::atomic<std::int64_t>::is_always_lock_free);
static_assert(std::atomic<double>::is_always_lock_free);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);
static_assert(std::is_trivially_copyable_v<GpuFacts>);
static_assert(std::is_trivially_copyable_v<Header> && std::is_trivially_copyable_v<FactsRecord>);

/// The offsets of the parts of a segment with that many devices, whose topology and faults have
/// that many bytes. Units: bytes from the file's start.
struct Offsets {
  explicit constexpr Offsets(std::uint64_t devices, std::uint64_t topology_bytes = 0,
                             std::uint64_t faults_bytes = 0,
                             SharingPolicy policy = SharingPolicy::kFifo)
      : places(devices * (policy == SharingPolicy::kMig ? 1 + kMigPlaces : 1)),
        topology(sizeof(Header) + devices * sizeof(FactsRecord)),
        faults(topology + topology_bytes),
        engines((faults + faults_bytes + kRecord - 1) / kRecord * kRecord),
        processes(engines + places * kEngineCount * sizeof(EngineRecord)),
        holdings(processes + kProcessCapacity * sizeof(ProcessRecord)),
        seats(holdings + places * kProcessCapacity * sizeof(HoldingRecord)),
        fault_records(seats + kSeatCapacity * sizeof(SeatRecord)),
        settings((fault_records + profile::kMostFaults * sizeof(FaultRecord) + kRecord - 1) /
                 kRecord * kRecord),
        power_tables(settings + devices * sizeof(SettingsRecord)),
        links(power_tables + devices * sizeof(PowerTable)),
        slice_tables(links + devices * sizeof(LinkRecord)),
        mig_tables(slice_tables + (has_slice_tables(policy) ? places * sizeof(SliceTable) : 0)),
        clock((mig_tables + (policy == SharingPolicy::kMig ? devices * sizeof(MigTable) : 0) +
               kPage - 1) /
              kPage * kPage),
        end(clock + sizeof(sim::ClockPage)) {}

  /// Programs map only the clock. Source: the largest page of the processors on which gpemu runs.
  static constexpr std::uint64_t kPage = 65536;

  /// Records begin at multiples of this.
  static constexpr std::uint64_t kRecord = alignof(EngineRecord);

  static constexpr std::uint64_t kFacts = sizeof(Header);
  std::uint64_t places;    ///< a number, not an offset.
  std::uint64_t topology;  ///< TOML, in docs/reference/topology-file.md's format.
  std::uint64_t faults;    ///< TOML, in docs/reference/faults-file.md's format, then zeros.
  std::uint64_t engines;
  std::uint64_t processes;
  std::uint64_t holdings;
  std::uint64_t seats;
  std::uint64_t fault_records;
  std::uint64_t settings;
  std::uint64_t power_tables;
  std::uint64_t links;
  std::uint64_t slice_tables;
  std::uint64_t mig_tables;
  std::uint64_t clock;
  std::uint64_t end;
};

}  // namespace gpemu::device::layout
