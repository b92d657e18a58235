// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

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

/// The end of something outside the node for which a stream waits, e.g. of bytes that go over a
/// real network. Given to the party that waits; copies are the same end.
///
/// Thread safety: any thread.
class OpenEnd {
 public:
  OpenEnd() = default;

  /// Ends it now, or at `earliest` if that is later. Only the first call counts, and none does once
  /// the party has aborted, or in a forked child.
  void end(TimePoint earliest) const;

 private:
  friend class Rendezvous;
  OpenEnd(std::shared_ptr<Node> node, sim::Clock& clock, MarkReference mark)
      : node_(std::move(node)), clock_(&clock), mark_(std::move(mark)) {}

  std::shared_ptr<Node> node_;
  sim::Clock* clock_ = nullptr;
  MarkReference mark_;
};

/// One party of a group. The members of a group queue rounds of work that end for all of them
/// together, as a collective does.
///
/// A party arrives at a round when its stream reaches it. The round starts at the latest arrival,
/// or at the end of the previous round if that is later. It ends for all parties after the largest
/// cost that any of them gave, but at least one nanosecond. Parties are processes of a node, or
/// threads of one process. All must queue the same rounds in the same order; if not, rounds stay
/// open, as NCCL's do (RoundWork).
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
  /// is called under a lock and must not call devices or parties. The end is never known if others
  /// do not do what `work` needs; this party has no part in later rounds either then.
  ///
  /// Errors: kUnavailable after the group has failed or this party has aborted; kInvalidArgument
  /// for a stream of another node.
  [[nodiscard]] Result<Moment> arrive(Stream& stream, Duration cost,
                                      std::function<void(const RoundTimes&)> observer = {},
                                      const RoundWork& work = {});

  /// As arrive(), for a round that does not end before something outside the node has ended, too.
  /// `begin` is called as an observer is, once it is known when all parties have arrived, which may
  /// be later than now; with times whose end is `cost` after their start, and with the end that
  /// this party must give: the stream waits for it. A party without such work gives null instead;
  /// then, its cost does not count. The round ends once all parties' ends have come. All parties of
  /// a round must call this function, and it counts as two rounds.
  using Begin = std::function<void(const RoundTimes& times, const OpenEnd& outside)>;
  [[nodiscard]] Result<Moment> arrive_open(Stream& stream, Duration cost, Begin begin,
                                           std::function<void(const RoundTimes&)> observer = {},
                                           const RoundWork& work = {});

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
  friend class OpenEnd;
  struct State;
  [[nodiscard]] Result<void> check_stream(const Stream& stream) const;
  [[nodiscard]] static bool takes_part(const Node& node);
  explicit Rendezvous(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace gpemu::device
