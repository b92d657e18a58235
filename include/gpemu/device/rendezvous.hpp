// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/device/device.hpp"
#include "gpemu/device/group_id.hpp"
#include "gpemu/device/moment.hpp"
#include "gpemu/device/node.hpp"
#include "gpemu/sim/clock.hpp"

namespace gpemu::device {

/// How well a process keeps up with the rounds of all its groups.
struct RoundStatistics {
  std::uint64_t rounds = 0;  ///< that have got their ends.
  /// How long after a round had ended its end was known; zero if that was before, or at most a
  /// millisecond for the median.
  Duration median_late{};
  Duration latest{};
  Duration settling{};  ///< CPU time of the thread that settles.
};

/// One party of a group whose members queue rounds of work that ends for all of them together: a
/// collective.
///
/// A party arrives at a round when its stream reaches it. The round ends, for all parties, at the
/// latest arrival plus the largest cost that any of them gave, at least one nanosecond; not before
/// the round before has ended. Parties are processes of a node, or threads of one. All must queue
/// the same rounds in the same order; if not, rounds stay open, as NCCL's do.
///
/// Thread safety: any thread, but one at a time arrives.
class Rendezvous {
 public:
  /// Reserves seats for a new group. They are free again when all parties have left or died. When
  /// the process that creates a group leaves or ends, seats that nobody has taken have left.
  ///
  /// Errors: kInvalidArgument for less than one party or more seats than a node has;
  /// kResourceLimit when too few are free.
  [[nodiscard]] static Result<GroupId> create_group(Node& node, int parties);

  /// Takes a seat. `seat` counts from 0. On a real clock, which must outlive the node, this
  /// starts a thread that settles the rounds of all groups of the process.
  ///
  /// Errors: kInvalidArgument for a seat that the group does not have or that is taken; kNotFound
  /// when the node has no such group, or no longer.
  [[nodiscard]] static Result<std::unique_ptr<Rendezvous>> join(std::shared_ptr<Node> node,
                                                                const GroupId& group, int seat,
                                                                sim::Clock& clock);

  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;
  /// Aborts, and leaves the group: parties that still wait for this one fail.
  ~Rendezvous();

  /// Queues a round in a stream of a device of the node that the party joined on and returns when
  /// it ends. What the stream is given later starts after that.
  ///
  /// Errors: kUnavailable after the group has failed or this party has aborted; kInvalidArgument
  /// for a stream of another node.
  [[nodiscard]] Result<Moment> arrive(Stream& stream, Duration cost);

  /// Errors: kUnavailable once a party, named in the message, has died or left without coming to a
  /// round for which this one waits. Noticed within some 20 ms while the clock is a real one.
  [[nodiscard]] Result<void> check();

  /// Blocks until a moment has come.
  ///
  /// Errors: as check, also when that happens meanwhile; kNotReady when it has not come within
  /// `timeout` of real time.
  [[nodiscard]] Result<void> wait(const Moment& moment,
                                  std::optional<Duration> timeout = std::nullopt);

  /// Ends this party's open rounds now, and lets the others' fail.
  void abort();

  [[nodiscard]] RoundStatistics statistics() const;

 private:
  struct State;
  explicit Rendezvous(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace gpemu::device
