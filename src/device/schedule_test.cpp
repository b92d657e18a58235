// SPDX-License-Identifier: Apache-2.0
//
// Random programs on the virtual clock, compared with a model that looks at each nanosecond.
#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "gpemu/device/device.hpp"
#include "gpemu/sim/random.hpp"

namespace gpemu::device {
namespace {

/// What the rules say of when queued work runs, as plainly as possible.
class Model {
 public:
  struct Work {
    int engine = 0;
    std::int64_t cost = 0;
    std::int64_t asked = 0;
    std::set<int> after;  ///< numbers of work that must have ended.
    std::int64_t ready = -1, start = -1, end = -1;
  };

  int add(Work work) {
    all_.push_back(std::move(work));
    return static_cast<int>(all_.size()) - 1;
  }

  /// Runs all work. Each engine does one piece at a time: of those that are ready the one that has
  /// been so for longest, of several the one that was queued first.
  void run() {
    std::size_t ended = 0;
    for (std::int64_t now = 0; ended < all_.size(); ++now) {
      while (true) {
        for (Work& work : all_) {
          if (work.start >= 0 && work.end == now && !work_ended_.contains(&work)) {
            work_ended_.insert(&work);
            ++ended;
          }
        }
        Work* next = nullptr;
        for (Work& work : all_) {
          if (work.start >= 0) continue;
          if (work.ready < 0 && is_ready(work, now)) work.ready = now;
          if (work.ready < 0 || is_busy(work.engine, now)) continue;
          if (next == nullptr || work.ready < next->ready) next = &work;
        }
        if (next == nullptr) break;
        next->start = now;
        next->end = now + next->cost;
      }
    }
  }

  [[nodiscard]] std::int64_t end_of(const std::set<int>& numbers, std::int64_t at_least) const {
    for (const int number : numbers) at_least = std::max(at_least, all_[number].end);
    return at_least;
  }

 private:
  [[nodiscard]] bool is_ready(const Work& work, std::int64_t now) const {
    return work.asked <= now && std::ranges::all_of(work.after, [&](int number) {
             return work_ended_.contains(&all_[number]);
           });
  }
  [[nodiscard]] bool is_busy(int engine, std::int64_t now) const {
    return std::ranges::any_of(all_, [&](const Work& work) {
      return work.engine == engine && work.start >= 0 && work.start <= now && now < work.end;
    });
  }

  std::vector<Work> all_;
  std::set<const Work*> work_ended_;
};

/// A program of a process that queues, waits and asks at random, on the devices and in the model.
class Program {
 public:
  explicit Program(std::uint64_t seed) : random_(seed) {
    devices_ = below(4) + 1;
    NodeConfig config{.name = "test", .devices = {}};
    config.devices.resize(static_cast<std::size_t>(devices_),
                          {.gpu = "TEST-GPU", .memory_bytes = kMiB});
    node_ = Node::create_private(config).value();
    for (int i = 0; i < devices_; ++i) {
      opened_.push_back(Device::open(node_, i, clock_).value());
      streams_.push_back(
          {.device = i, .kind = Kind::kLegacy, .stream = &opened_[i]->default_stream()});
      for (int k = below(4); k > 0; --k) {
        const bool blocking = below(2) == 0;
        streams_.push_back({.device = i,
                            .kind = blocking ? Kind::kBlocking : Kind::kNonBlocking,
                            .owned = opened_[i]->create_stream(
                                blocking ? StreamKind::kBlocking : StreamKind::kNonBlocking)});
        streams_.back().stream = streams_.back().owned.get();
      }
    }
    events_.resize(static_cast<std::size_t>(below(4)) + 1);
  }

  /// Returns what differed; nothing if nothing did.
  std::optional<std::string> run() {
    const int steps = below(40) + 1;
    for (int i = 0; i < steps; ++i) step();
    for (Stream_& stream : streams_) note_end(stream.stream->tail(), before(stream), now());
    model_.run();
    for (const Check& check : checks_) {
      const std::int64_t expected = model_.end_of(check.work, check.at_least);
      if (check.over) {
        if (*check.over != (expected <= check.now)) {
          return fmt::format("at {} the end at {} was {}over", check.now, expected,
                             *check.over ? "" : "not ");
        }
      } else if (std::max(check.end.time(), TimePoint(Duration(check.at_least))) !=
                 TimePoint(Duration(expected))) {
        return fmt::format("{} instead of {}", check.end.time().time_since_epoch().count(),
                           expected);
      } else if (check.waited >= 0 && check.waited != std::max(expected, check.now)) {
        return fmt::format("a wait ended at {} instead of {}", check.waited, expected);
      }
    }
    return std::nullopt;
  }

 private:
  enum class Kind { kLegacy, kBlocking, kNonBlocking };
  struct Stream_ {
    int device = 0;
    Kind kind = Kind::kLegacy;
    std::unique_ptr<Stream> owned;
    Stream* stream = nullptr;
    std::set<int> last;  ///< what its next work comes after.
  };
  struct Recorded {
    Event event;
    std::set<int> after;
    std::int64_t time = 0;
  };
  /// What was seen of the end of some work, or of a time if that is later.
  struct Check {
    std::set<int> work;
    std::int64_t at_least = 0;
    std::int64_t now = 0;
    std::optional<bool> over;
    Moment end;
    std::int64_t waited = -1;
  };

  int below(int end) { return static_cast<int>(random_.below(static_cast<std::uint64_t>(end))); }
  std::int64_t now() { return clock_.now().time_since_epoch().count(); }

  /// What work of a stream comes after: for the legacy default stream and those that synchronise
  /// with it, that of each other.
  std::set<int> before(const Stream_& stream) {
    std::set<int> all = stream.last;
    for (const Stream_& other : streams_) {
      const bool related = other.device == stream.device &&
                           ((stream.kind == Kind::kLegacy && other.kind == Kind::kBlocking) ||
                            (stream.kind == Kind::kBlocking && other.kind == Kind::kLegacy));
      if (related) all.insert(other.last.begin(), other.last.end());
    }
    return all;
  }

  void note_end(Moment end, std::set<int> work, std::int64_t at_least) {
    checks_.push_back({.work = std::move(work), .at_least = at_least, .now = now(), .end = end});
  }

  void step() {
    Stream_& stream = streams_[static_cast<std::size_t>(below(static_cast<int>(streams_.size())))];
    Recorded& event = events_[static_cast<std::size_t>(below(static_cast<int>(events_.size())))];
    switch (below(10)) {
      case 0:
        clock_.wait_until(clock_.now() + Duration(below(12)));
        return;
      case 1:
        stream.stream->record(event.event);
        event.after = before(stream);
        event.time = now();
        note_end(event.event.moment(), event.after, event.time);
        return;
      case 2:
        stream.stream->wait(event.event);
        if (!event.event.recorded()) return;
        if (stream.kind == Kind::kLegacy) stream.last = before(stream);
        stream.last.insert(event.after.begin(), event.after.end());
        return;
      case 3: {
        Check check{.work = event.after, .at_least = event.time, .now = now()};
        check.over = event.event.moment().is_over(clock_.now());
        checks_.push_back(check);
        return;
      }
      case 4: {
        if (below(4) != 0) return;
        Check check{
            .work = before(stream), .at_least = now(), .now = now(), .end = stream.stream->tail()};
        check.end.wait(clock_);
        check.waited = now();
        checks_.push_back(check);
        return;
      }
      default: {
        const auto engine = static_cast<Engine>(below(3));
        const std::int64_t cost = below(5) == 0 ? 0 : below(15);
        const int number = model_.add({.engine = stream.device * 3 + static_cast<int>(engine),
                                       .cost = cost,
                                       .asked = now(),
                                       .after = before(stream)});
        stream.last = {number};
        if (engine == Engine::kCompute) {
          stream.stream->launch(Duration(cost));
        } else {
          stream.stream->copy(engine, 1, Duration(cost));
        }
      }
    }
  }

  sim::Rng random_;
  sim::VirtualClock clock_;
  int devices_ = 1;
  std::shared_ptr<Node> node_;
  std::vector<std::unique_ptr<Device>> opened_;
  std::vector<Stream_> streams_;
  std::vector<Recorded> events_;
  std::vector<Check> checks_;
  Model model_;
};

TEST(Schedule, RunsRandomProgramsAsTheModelDoes) {
  constexpr std::uint64_t kPrograms = 5000;
  for (std::uint64_t seed = 0; seed < kPrograms; ++seed) {
    const auto difference = Program(seed).run();
    ASSERT_FALSE(difference) << "program " << seed << ": " << *difference;
  }
}

}  // namespace
}  // namespace gpemu::device
