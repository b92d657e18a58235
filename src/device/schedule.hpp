// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "gpemu/base/units.hpp"
#include "gpemu/device/interval.hpp"
#include "gpemu/device/moment.hpp"

#include "engine_queue.hpp"
#include "lateness.hpp"
#include "party.hpp"

namespace gpemu::device {

/// A first-in, first-out queue in pieces that stay at their addresses.
template <typename Item>
class Queue {
 public:
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::size_t size() const { return size_; }
  Item& operator[](std::size_t index) {
    return (*pieces_[(first_ + index) / kPiece])[(first_ + index) % kPiece];
  }
  Item& front() { return (*pieces_.front())[first_]; }
  Item& back() { return (*this)[size_ - 1]; }
  /// Returns a new item, which has the state in which a former item was left.
  Item& push() {
    if (first_ + size_ == pieces_.size() * kPiece) {
      if (spare_.empty()) spare_.push_back(std::make_unique<Piece>());
      pieces_.push_back(std::move(spare_.back()));
      spare_.pop_back();
    }
    ++size_;
    return back();
  }
  void pop() {
    ++first_;
    --size_;
    if (first_ < kPiece) return;
    if (spare_.size() < kMostSpare) spare_.push_back(std::move(pieces_.front()));
    pieces_.pop_front();
    first_ = 0;
  }

 private:
  static constexpr std::size_t kPiece = 64;
  static constexpr std::size_t kMostSpare = 16;
  using Piece = std::array<Item, kPiece>;

  std::deque<std::unique_ptr<Piece>> pieces_;
  std::vector<std::unique_ptr<Piece>> spare_;
  std::size_t first_ = 0;  ///< in the first piece.
  std::size_t size_ = 0;
};

/// A piece of work in a lane, or a wait for another lane.
///
/// Several pieces of work are one task if they were queued one after the other, run one after the
/// other and have their times. Programs queue thousands, so a task keeps only the end of each
/// piece.
struct Task {
  static constexpr std::int16_t kWait = -1;

  std::int16_t engine = kWait;
  bool was_put_off = false;   ///< it did not get its time when it was queued.
  std::uint32_t before = 0;   ///< pieces before the last one; the lane has their ends.
  std::uint64_t number = 0;   ///< of the last piece, in the order of queueing.
  TimePoint asked{};          ///< the first piece cannot start earlier.
  Duration cost{};            ///< engine time of the first piece.
  TimePoint start{};          ///< once placed; before that, when its engine may start it.
  TimePoint end{};            ///< as expected until it is placed.
  MarkReference waits_for{};  ///< of a wait.
  MarkReference mark{};       ///< of the end, for everything that waits for it.
};

static_assert(sizeof(Task) == 64);

struct Lane;

/// The common state of the streams of a context.
struct LaneGroup {
  Lane* legacy = nullptr;       ///< of the legacy default stream.
  std::vector<Lane*> blocking;  ///< those that synchronise with it.
  TimePoint blocking_end{};     ///< of all work that has started in these and in the legacy lane.
  TimePoint any_end{};          ///< of all work that has started in any lane.
  std::function<void(TimePoint start, TimePoint end)> observer;  ///< called for started work.
  std::vector<Lane*> waiting;  ///< those with tasks that have not started, as far as is known.
  /// Of the legacy lane and those that synchronise with it, when this was the number of what is
  /// queued next and this the end of what had started.
  Moment joint_end;
  std::pair<std::uint64_t, TimePoint> joint_key;
};

/// The work of a stream that has not started: tasks that run one after the other.
struct Lane {
  std::shared_ptr<LaneGroup> group;
  bool blocking = false;  ///< synchronises with the legacy lane, or is it.
  bool open = false;      ///< may wait for a round that had no end when it was queued.
  Queue<Task> tasks;
  Queue<TimePoint> ends;       ///< of all pieces of tasks except the last ones.
  std::size_t placed = 0;      ///< how many of the first tasks have their times.
  TimePoint started_end{};     ///< when the last task that has started ends.
  TimePoint expected_end{};    ///< when the last task ends, as far as is known.
  std::uint64_t followed = 0;  ///< the last task of the legacy lane that this one waits for.
  std::uint64_t preceded = 0;  ///< the last task of this lane that the legacy lane waits for.
};

/// All work that a process has queued on the devices of a node, and when it runs.
///
/// An engine does work in the order in which it becomes ready, and finishes the work that it has
/// started. If several pieces become ready at the same time, the one that was queued first runs
/// first. So, until it starts, queued work can be put off by work of other streams that becomes
/// ready earlier. Times are final once work has started; the others hold if nothing else is queued.
///
/// As long as work becomes ready in the order in which it is queued, each piece gets its time when
/// it is queued. Otherwise, work that has not started is placed again, as far as somebody asks for
/// it.
///
/// Thread safety: guarded by `mutex`, which callers hold.
class Schedule {
 public:
  Schedule(Segment& segment, std::size_t devices);
  Schedule(const Schedule&) = delete;
  Schedule& operator=(const Schedule&) = delete;
  /// Makes all marks final at their expected times.
  ~Schedule();

  void add(std::shared_ptr<LaneGroup> group);

  /// Queues work in a lane on an engine of a device, and returns when it will run, as far as is
  /// known.
  Interval queue(Lane& lane, std::size_t engine, TimePoint now, Duration cost, Bytes bytes);

  /// Makes work that is queued in a lane from now on wait for a moment. Source: CUDA Runtime API,
  /// "Stream synchronization behavior": in the legacy default stream, a wait is like work.
  void wait_in_stream(Lane& lane, TimePoint now, const Moment& moment);

  /// Queues a round of a rendezvous in a lane and returns when it ends. Requires: the party is
  /// added.
  Moment arrive(Party& party, Lane& lane, TimePoint now, Duration cost);

  /// From now until the party is removed, publishes its arrivals and gives its rounds their ends.
  void add(Party& party);
  /// Ends the party's open rounds at `now`, or when the stream reaches them if that is later.
  void abort(Party& party, TimePoint now);
  void remove(Party& party);

  /// As Stream::last_end.
  Moment last_end_of(Lane& lane, TimePoint now);

  /// Returns when the last task of a lane ends.
  Moment last_end(Lane& lane, TimePoint now);

  /// Returns when all work of a lane ends, and everything for which it waits.
  Moment end_of(Lane& lane, TimePoint now);

  /// The same for all lanes of a group.
  std::vector<Moment> ends_of(const LaneGroup& group, TimePoint now);

  /// Gives all work its time as if nothing else was queued later.
  void place_all();

  /// Gives its time to work that has started at `now`, and settles rounds.
  void advance(TimePoint now);

  /// When there is something to do next for open rounds.
  struct NextLook {
    TimePoint time = TimePoint::max();
    /// Whether a round would have ended by now if others had come: only they know when that is.
    bool listens = false;
  };
  NextLook next_look(TimePoint now);

  /// As next_look but, with open rounds, not after `latest`. For the thread that settles; its bell
  /// rings if it must look earlier.
  NextLook plan_look(TimePoint now, TimePoint latest);

  /// Finds parties that wait for a party that cannot come any more.
  void find_failures();

  /// How late the ends of rounds became known.
  [[nodiscard]] const Lateness& lateness() const { return lateness_; }

  /// Changes when a round gets its end or a party fails.
  std::atomic<std::uint32_t> news{0};
  std::atomic<int> waiting_for_news{0};
  /// Notes that something happened, and wakes the threads that wait for it.
  void tell_news();

  /// Keeps a lane until its work has ended.
  void abandon(std::unique_ptr<Lane> lane, TimePoint now);

  std::mutex mutex;

 private:
  struct EngineState {
    EngineQueue queue;
    TimePoint placed_end{};    ///< of placed work.
    TimePoint started_end{};   ///< of started work.
    TimePoint last_ready{};    ///< of placed work.
    std::vector<Lane*> ready;  ///< a heap of lanes whose next task is ready.
  };
  struct Later;
  /// The engine whose next work starts first, and when it starts.
  struct Turn {
    EngineState* engine = nullptr;
    TimePoint start = TimePoint::max();
  };

  [[nodiscard]] static TimePoint known_end(const Lane& lane);
  static Task& next_of(Lane& lane) { return lane.tasks[lane.placed]; }
  EngineState& engine_of(const Task& task) {
    return engines_[static_cast<std::size_t>(task.engine)];
  }
  Interval queue_placed(Lane& lane, std::size_t engine_index, TimePoint ready, Duration cost,
                        Bytes bytes);
  Interval queue_unplaced(Lane& lane, std::size_t engine_index, TimePoint ready, Duration cost,
                          Bytes bytes, bool in_order);
  Task& push(Lane& lane, std::int16_t engine, TimePoint asked);
  [[nodiscard]] bool can_join_last(Lane& lane, std::size_t engine_index,
                                   const Interval& interval) const;
  static void split(Lane& lane);
  [[nodiscard]] static TimePoint last_start(Lane& lane, std::size_t index);
  void push_work(Lane& lane, std::size_t engine_index, TimePoint ready, const Interval& interval);
  void wait(Lane& lane, TimePoint now, const Moment& moment);
  void follow_group(Lane& lane, TimePoint now);
  void follow(Lane& lane, TimePoint now, Lane& other, std::uint64_t& last);
  void look_at_group(LaneGroup& group, TimePoint now);
  void look_at(Lane& lane);
  void place_woken();
  bool find_ready(Lane& lane);
  void give_time(Lane& lane);
  [[nodiscard]] Turn next_turn();
  Lane* place_next(TimePoint until);
  void catch_up(TimePoint now);
  [[nodiscard]] TimePoint next_event();
  void enter(TimePoint now);
  void release(const Mark& mark);
  bool settle_rounds();
  [[nodiscard]] bool publish_rounds(Party& party);
  void give_end(Party& party, TimePoint end);
  [[nodiscard]] static std::optional<TimePoint> ready_time(Party& party, const Party::Round& round);
  [[nodiscard]] static TimePoint ready_known_at(Party& party, const Party::Round& round);
  void ring_listeners(Party& party);
  static void ring(layout::ProcessRecord& process);
  void start_over(TimePoint now);
  void note_start(Lane& lane, EngineState& engine, TimePoint start, TimePoint end);
  static void note_end(Lane& lane, TimePoint end);
  void drop_started(Lane& lane, TimePoint now);
  void drop_pieces(Lane& lane, TimePoint now);

  Segment& segment_;
  std::vector<EngineState> engines_;
  std::vector<EngineState*> waiting_;  ///< engines for which some lane is ready.
  std::vector<std::shared_ptr<LaneGroup>> groups_;
  std::vector<std::unique_ptr<Lane>> abandoned_;
  std::size_t most_abandoned_ = 16;               ///< before they are checked.
  std::vector<std::pair<Mark*, Lane*>> blocked_;  ///< lanes whose next task waits for a mark.
  std::vector<Lane*> woken_;                      ///< whose marks have got their times.
  std::uint64_t next_number_ = 1;
  TimePoint now_{};      ///< the latest time that callers passed.
  TimePoint reached_{};  ///< all work that starts before has started, while rounds are open.
  std::vector<Party*> parties_;
  Lateness lateness_;
  std::size_t open_rounds_ = 0;                ///< of all parties.
  TimePoint planned_look_ = TimePoint::min();  ///< of the thread that settles, if there is one.
};

}  // namespace gpemu::device
