// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/device/device.hpp"
#include "gpemu/device/group_id.hpp"
#include "gpemu/device/interval.hpp"
#include "gpemu/device/moment.hpp"
#include "gpemu/device/node.hpp"
#include "gpemu/sim/clock.hpp"

namespace gpemu::device {

/// How well a process keeps up with the rounds of all its groups.
struct RoundStatistics {
  std::uint64_t rounds = 0;  ///< rounds whose ends are known.
  /// Median of the time from the end of a round until that end was known, which is when the last
  /// party published its arrival. Usually zero, because arrivals are published early; a longer
  /// median than a millisecond is given as a millisecond.
  Duration median_late{};
  Duration latest{};    ///< the longest such time.
  Duration settling{};  ///< CPU time of the thread that settles rounds.
};

/// One party of a group. The members of a group queue rounds of work that end for all of them
/// together, as a collective does.
///
/// A party arrives at a round when its stream reaches it. The round starts at the latest arrival,
/// or at the end of the previous round if that is later. It ends for all parties after the largest
/// cost that any of them gave, but at least one nanosecond. Parties are processes of a node, or
/// threads of one process. All must queue the same rounds in the same order; if not, rounds stay
/// open, as NCCL's do.
///
/// In a forked child, which has no part in the node, all calls fail with kUnavailable. Thread
/// safety: any thread, but only one thread may call arrive() at a time.
class Rendezvous {
 public:
  /// Reserves seats for a new group. They are free again when all parties have left or died. When
  /// the process that created the group leaves or ends, seats that nobody has taken count as left.
  ///
  /// Errors: kInvalidArgument for fewer than one party or more seats than a node has;
  /// kResourceLimit if too few are free.
  [[nodiscard]] static Result<GroupId> create_group(Node& node, int parties);

  /// Takes a seat. `seat` counts from 0. On a real clock, which must outlive the node, this
  /// starts a thread that settles the rounds of all groups of the process.
  ///
  /// Errors: kInvalidArgument for a seat that the group does not have or that is taken; kNotFound
  /// if the node does not have the group, or no longer has it.
  [[nodiscard]] static Result<std::unique_ptr<Rendezvous>> join(std::shared_ptr<Node> node,
                                                                const GroupId& group, int seat,
                                                                sim::Clock& clock);

  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;
  /// Aborts and leaves the group: parties that still wait for this one fail.
  ~Rendezvous();

  /// Queues a round in a stream and returns the moment at which it ends. The stream must belong to
  /// a device of the node on which the party joined. Work that is queued in the stream later starts
  /// after the round.
  ///
  /// `observer`, if any, is called once the round's times are known, unless the party aborts it. It
  /// is called under a lock and must not call devices or parties.
  ///
  /// Errors: kUnavailable after the group has failed or this party has aborted; kInvalidArgument
  /// for a stream of another node.
  [[nodiscard]] Result<Moment> arrive(Stream& stream, Duration cost,
                                      std::function<void(const RoundTimes&)> observer = {});

  /// Errors: kUnavailable once a party has died or left without arriving at a round for which this
  /// one waits; the message names that party. On a real clock, this is noticed within about 20 ms.
  [[nodiscard]] Result<void> check();

  /// Blocks until a moment has come.
  ///
  /// Errors: those of check(), also if a party dies or leaves during the wait; kNotReady if the
  /// moment has not come within `timeout` of the clock's time.
  [[nodiscard]] Result<void> wait(const Moment& moment,
                                  std::optional<Duration> timeout = std::nullopt);

  /// Ends this party's open rounds now. Those of the other parties fail.
  [[nodiscard]] Result<void> abort();

  [[nodiscard]] Result<RoundStatistics> statistics() const;

 private:
  struct State;
  explicit Rendezvous(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace gpemu::device
