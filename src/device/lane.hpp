// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "gpemu/base/units.hpp"
#include "gpemu/device/interval.hpp"
#include "gpemu/device/moment.hpp"
#include "gpemu/device/node_state.hpp"

#include "beside.hpp"

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
  Item& back() { return next_[-1]; }
  /// Returns a new item, which has the state in which a former item was left.
  Item& push() {
    if (next_ == piece_end_) add_piece();
    ++size_;
    return *next_++;
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

  void add_piece() {
    if (spare_.empty()) spare_.push_back(std::make_unique<Piece>());
    pieces_.push_back(std::move(spare_.back()));
    spare_.pop_back();
    next_ = pieces_.back()->data();
    piece_end_ = next_ + kPiece;
  }

  std::deque<std::unique_ptr<Piece>> pieces_;
  std::vector<std::unique_ptr<Piece>> spare_;
  std::size_t first_ = 0;  ///< in the first piece.
  std::size_t size_ = 0;
  Item* next_ = nullptr;       ///< the next new item,
  Item* piece_end_ = nullptr;  ///< unless the last piece is full.
};

/// A piece of work in a lane, or a wait for another lane or for some time.
///
/// A task goes through these states:
///
///     queued ----> in line ----> placed ----> started
///        `--> blocked --^  ^--------'
///
/// - queued: tasks before it in the lane are not placed.
/// - blocked: a wait, whose mark has no time yet.
/// - in line: it is ready at `start`, and stands in the heap of its engine.
/// - placed: it has its `start` and its `end`, unless work that is queued later puts it off: then
///   it is queued again.
/// - started: its times are final. The lane forgets it.
///
/// Several pieces of work are one task if they were queued one after the other, run one after the
/// other and have their times. Programs queue thousands, so a task keeps only the end of each
/// piece.
struct Task {
  static constexpr std::int16_t kWait = -1;

  std::int16_t engine = kWait;
  std::uint16_t width = kWholeWidth;  ///< of the Room that each piece takes,
  std::uint8_t memory = 0;            ///< and so much of the memory.
  bool was_put_off = false;           ///< it did not get its time when it was queued.
  std::uint16_t before = 0;           ///< pieces before the last one; the lane has their ends.
  std::uint64_t number = 0;           ///< of the last piece, in the order of queueing.
  TimePoint asked{};                  ///< the first piece cannot start earlier.
  Duration cost{};                    ///< engine time of the first piece, or the time of a wait.
  TimePoint start{};                  ///< once placed; before that, when its engine may start it.
  TimePoint end{};                    ///< as expected until it is placed.
  MarkReference waits_for{};          ///< of a wait.
  MarkReference mark{};               ///< of the end, for everything that waits for it.

  [[nodiscard]] Room room() const { return {.width = width, .memory = memory}; }
  void take(Room room) {
    width = room.width;
    memory = room.memory;
  }
};

static_assert(sizeof(Task) == 64);

/// When a lane reaches a point: the latest of a time, and of so much after the end of each of some
/// rounds that have no end yet. This holds as long as each engine has unstarted work of one lane
/// only.
struct Ready {
  struct Term {
    MarkReference round{};
    Duration after{};
  };
  /// More rounds at once are not followed.
  static constexpr std::size_t kMostTerms = 4;

  std::uint64_t epoch = 0;  ///< of the timeline in which it holds; 0: it does not hold.
  TimePoint time{};
  std::vector<Term> terms;
};

struct Lane;

/// The common state of the streams of a context.
struct LaneGroup {
  std::size_t device = 0;       ///< the place that has its compute engine.
  std::size_t copies = 0;       ///< the place that has its copy engines.
  Lane* legacy = nullptr;       ///< of the legacy default stream.
  std::vector<Lane*> blocking;  ///< those that synchronise with it.
  TimePoint blocking_end{};     ///< of all work that has started in these and in the legacy lane.
  TimePoint any_end{};          ///< of all work that has started in any lane.
  std::function<void(const StartedWork&)> observer;  ///< called for started work.
  std::vector<Lane*> waiting;  ///< those with tasks that have not started, as far as is known.
  /// Of the legacy lane and those that synchronise with it, when this was the number of what is
  /// queued next and this the end of what had started.
  Moment joint_end;
  std::pair<std::uint64_t, TimePoint> joint_key;

  /// Returns whether an engine of the node is one of its context's.
  [[nodiscard]] bool uses(std::size_t engine) const {
    const bool computes = engine % kEngineCount == static_cast<std::size_t>(Engine::kCompute);
    return engine / kEngineCount == (computes ? device : copies);
  }
};

/// The work of a stream that has not started: tasks that run one after the other.
struct Lane {
  std::shared_ptr<LaneGroup> group;
  bool blocking = false;     ///< synchronises with the legacy lane, or is it.
  bool open = false;         ///< may wait for a round that had no end when it was queued.
  bool loose = false;        ///< has work on an engine for which another lane had work, too.
  std::int8_t priority = 0;  ///< of its kernels: a lower one comes first.
  Queue<Task> tasks;
  Queue<TimePoint> ends;                           ///< of all pieces of tasks except the last ones.
  std::array<std::uint32_t, kEngineCount> work{};  ///< tasks by engine of the device.
  std::size_t placed = 0;      ///< how many of the first tasks have their times.
  TimePoint started_end{};     ///< when the last task that has started ends.
  TimePoint expected_end{};    ///< when the last task ends, as far as is known.
  Ready ready;                 ///< when the last task ends, if the lane is open.
  std::uint64_t followed = 0;  ///< the last task of the legacy lane that this one waits for.
  std::uint64_t preceded = 0;  ///< the last task of this lane that the legacy lane waits for.
};

}  // namespace gpemu::device
