// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/base/mutex.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/cuda.h"
#include "gpemu/device/rendezvous.hpp"
#include "gpemu/net/address.hpp"
#include "gpemu/process/device_state.hpp"
#include "gpemu/process/handle_table.hpp"
#include "gpemu/process/made_once.hpp"
#include "gpemu/process/process.hpp"
#include "gpemu/process/status.hpp"
#include "gpemu/ranks/carrier.hpp"
#include "gpemu/ranks/collective.hpp"
#include "gpemu/ranks/host_ring.hpp"
#include "gpemu/ranks/mailbox.hpp"
#include "gpemu/ranks/meeting.hpp"
#include "gpemu/ranks/wire.hpp"
#include "gpemu/topology/fabric.hpp"

namespace gpemu::ranks {

/// A rank of a communicator, as it describes itself to the others. Comes from other processes.
struct Member {
  std::uint64_t host = 0;      ///< the machine and its process numbers.
  std::uint64_t computer = 0;  ///< the emulated host: ranks on several are joined by a network.
  std::uint64_t node = 0;
  std::uint64_t identity = 0;  ///< of the process in the node.
  std::uint64_t tag = 0;       ///< of rank 0: a random name of the communicator.
  device::GroupId group;       ///< of rank 0.
  Mailbox::Ticket mailbox;
  std::int32_t device = 0;  ///< in the node.
  std::uint64_t bus = 0;    ///< the device's address on its bus.
  process::Status status = GPEMU_CUDA_SUCCESS;
  std::int32_t color = 0, order = 0;  ///< of a rank of a communicator that is divided.
  std::array<char, 64> gpu{};
  net::SocketAddress address;  ///< on which the previous host calls, if the network is real.
  std::uint64_t key = 0;       ///< what it then says.
  Meeting::Id meetings;        ///< of rank 0, if the ranks meet at a named address: all later ones.
};
static_assert(sizeof(Member) <= Meeting::kRecordBytes);

/// What a collective takes from the arrival of the last rank: a time and, if it crosses a real
/// network, what this rank's host moves over it.
struct CollectiveCost {
  Duration time{};
  Transfer transfer;
  device::RoundWork work;
};

/// One rank of a communicator (docs/design/collectives.md). Its collectives have numbers, which
/// count up from 0; the same number is the same collective on all ranks.
///
/// Owned by its handle and by the jobs of the mover that need it. Thread safety: any thread. The
/// lock is never held while this waits, meets others or gives the mover a job.
class Communicator {
 public:
  /// What the ranks have agreed on.
  struct Parts {
    Place place;
    process::DeviceState* device = nullptr;
    Meeting::Id id;
    std::vector<Member> members;  ///< by rank; phantoms, which come last, are not among them.
    std::optional<topology::Fabric> fabric;  ///< if the members do not tell.
    std::unique_ptr<Mailbox> mailbox;
    std::unique_ptr<device::Rendezvous> rendezvous;
    /// Of the first rank of each of several hosts, if the network is real.
    std::optional<Carrier::Number> wire{};
  };
  explicit Communicator(Parts parts);
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  ~Communicator();

  [[nodiscard]] Place place() const { return parts_.place; }
  [[nodiscard]] process::DeviceState& device() const { return *parts_.device; }
  [[nodiscard]] const Meeting::Id& id() const { return parts_.id; }
  [[nodiscard]] std::uint64_t tag() const { return parts_.members.front().tag; }
  [[nodiscard]] const std::vector<Member>& members() const { return parts_.members; }
  [[nodiscard]] Mailbox& mailbox() const { return *parts_.mailbox; }
  /// The number of ranks that are not phantoms.
  [[nodiscard]] int real_ranks() const { return static_cast<int>(parts_.members.size()); }
  [[nodiscard]] bool has_phantoms() const { return real_ranks() < place().ranks; }
  /// Returns the rank that does what a rank does, and has what it has: itself, or a phantom's
  /// model.
  [[nodiscard]] int model_of(int rank) const { return rank % real_ranks(); }
  /// What joins the ranks.
  [[nodiscard]] const topology::Fabric& fabric() const { return fabric_; }
  [[nodiscard]] const HostRing& hosts() const { return hosts_; }
  /// Whether bytes of collectives go over a real network.
  [[nodiscard]] bool crosses_network() const;

  /// Returns the number of the next collective. Errors: ILLEGAL_STATE after an abort,
  /// OUT_OF_MEMORY if this rank is too far ahead.
  [[nodiscard]] process::Status begin(std::uint64_t* number) GPEMU_EXCLUDES(mutex_);

  /// Queues the round of a collective in a stream. `observer`: as of Rendezvous::arrive. Errors:
  /// NOT_FOUND after a rank has ended, or the network between hosts is cut.
  [[nodiscard]] process::Status arrive(device::Stream& stream, const CollectiveCost& cost,
                                       std::function<void(const device::RoundTimes&)> observer,
                                       device::Moment* end) GPEMU_EXCLUDES(mutex_);

  /// A process that waits for a post, and how often it had been rung for at that time.
  struct Awaiting {
    std::uint64_t identity = 0;
    std::uint32_t rung = 0;
  };
  /// Returns the processes whose ranks wait for this one's post of a collective. Requires: it has
  /// been posted.
  [[nodiscard]] std::vector<Awaiting> awaiting(std::uint64_t number) const;
  /// Wakes them, except those that something else has woken since: that have seen the post.
  static void ring(std::span<const Awaiting> processes);
  /// As ring(), for a thread of the program, which leaves as much as it can to another one.
  static void ring_soon(std::span<const Awaiting> processes);
  /// The rank for which this one waited last, for which it is likely to wait again.
  std::atomic<int> slowest{0};

  [[nodiscard]] bool is_aborted() const { return aborted_.load(std::memory_order_acquire); }
  void abort() GPEMU_EXCLUDES(mutex_);
  /// Blocks until all collectives have ended, or a rank has.
  void finalize() GPEMU_EXCLUDES(mutex_);

  /// Keeps the status of a call that has failed; the first one stays.
  process::Status note(process::Status status) GPEMU_EXCLUDES(mutex_);
  [[nodiscard]] process::Status error() const GPEMU_EXCLUDES(mutex_);

  /// Returns the number of the next division.
  [[nodiscard]] std::uint64_t next_division() GPEMU_EXCLUDES(mutex_);
  /// Returns the number of the next communicator without some of the ranks. Other ranks may count
  /// those without other ranks differently.
  [[nodiscard]] std::uint64_t next_without(const std::set<int>& excluded) GPEMU_EXCLUDES(mutex_);
  /// Lets the ranks meet at this one, also when the process that made the id has ended. Errors:
  /// those of Meeting::open().
  [[nodiscard]] Result<void> open_meetings() GPEMU_EXCLUDES(mutex_);

  /// Returns what a rank does in a collective, as far as NCCL's others notice.
  [[nodiscard]] device::RoundWork work_of(const CollectiveCall& call) const;
  /// Says once that the calls of two ranks do not match, and whose ends. If not both do, --strict
  /// ends the program.
  void tell_mismatch(const CollectiveCall& own, int other_rank, const CollectiveCall& other);

  /// The communicator of a sender (its rank 0) and a receiver (its rank 1), which are ranks of this
  /// one; null if it has not been made. It is kept and ends with this one.
  [[nodiscard]] std::shared_ptr<Communicator> pair(int sender, int receiver) const
      GPEMU_EXCLUDES(mutex_);
  void keep_pair(int sender, int receiver, std::shared_ptr<Communicator> made)
      GPEMU_EXCLUDES(mutex_);
  /// The stream in which a pair's transfers run beside others.
  [[nodiscard]] device::Stream& own_stream() GPEMU_EXCLUDES(mutex_);

 private:
  [[nodiscard]] std::vector<std::shared_ptr<Communicator>> pairs() const GPEMU_EXCLUDES(mutex_);
  [[nodiscard]] Result<device::Moment> queue_round(
      device::Stream& stream, const CollectiveCost& cost,
      std::function<void(const device::RoundTimes&)> observer);
  void lose_network() GPEMU_EXCLUDES(mutex_);

  Parts parts_;
  HostRing hosts_;
  topology::Fabric fabric_;
  std::atomic<bool> aborted_{false};
  std::atomic<bool> is_cut_{false};  ///< the wire is broken.
  std::atomic<bool> has_told_{false};
  mutable Mutex mutex_;
  std::uint64_t next_number_ GPEMU_GUARDED_BY(mutex_) = 0;
  std::uint64_t divisions_ GPEMU_GUARDED_BY(mutex_) = 0;
  std::map<std::set<int>, std::uint64_t> without_ GPEMU_GUARDED_BY(mutex_);
  bool has_meetings_ GPEMU_GUARDED_BY(mutex_) = false;
  device::Moment last_ GPEMU_GUARDED_BY(mutex_);  ///< the end of the last round.
  process::Status error_ GPEMU_GUARDED_BY(mutex_) = GPEMU_CUDA_SUCCESS;
  std::map<std::pair<int, int>, std::shared_ptr<Communicator>> pairs_ GPEMU_GUARDED_BY(mutex_);
  std::unique_ptr<device::Stream> stream_ GPEMU_GUARDED_BY(mutex_);
};

/// Returns the hosts of a communicator's ranks.
[[nodiscard]] HostRing hosts_of(const std::vector<Member>& members);

/// Errors: NVLINK_UNCORRECTABLE if the NVLinks between this rank's GPU and another rank's are
/// broken.
[[nodiscard]] process::Status check_links(const Communicator& communicator);

/// Returns the cost of a collective, or of a transfer between two ranks. `moved`: the bytes that
/// this rank sends or receives, whichever are more, in transfers that run at the same time; 0 for
/// collectives.
[[nodiscard]] CollectiveCost cost_of(const Communicator& communicator, const CollectiveCall& call,
                                     Bytes moved);

/// Returns how long NCCL's tuner expects a collective to take, in seconds.
[[nodiscard]] double tuner_seconds(const Communicator& communicator, const CollectiveCall& call);

/// Returns what nccl-tests multiplies the algorithm bandwidth with to get the bus bandwidth.
[[nodiscard]] double bus_factor_of(gpemu_cuda_collective kind, int ranks);

}  // namespace gpemu::ranks

struct gpemu_cuda_comm {
  std::shared_ptr<gpemu::ranks::Communicator> communicator;
};

namespace gpemu::ranks {

/// More than any program keeps alive.
inline constexpr std::size_t kMaxCommunicators = 1 << 12;

[[nodiscard]] inline process::HandleTable<gpemu_cuda_comm>& communicators() {
  static constinit process::MadeOnce<process::HandleTable<gpemu_cuda_comm>> table;
  return table.get(kMaxCommunicators);
}

}  // namespace gpemu::ranks
