// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

namespace gpemu::pipeline {

/// Something that ends at a time: what it is and of which node and worker is up to its maker.
struct Event {
  std::uint32_t kind = 0;
  std::uint32_t node = 0;
  std::uint32_t index = 0;

  bool operator==(const Event&) const = default;
};

/// A processor, a disk or a link: it serves all its jobs at the same time, each at the same speed
/// (processor sharing). Times are in seconds.
class Station {
 public:
  /// `total_speed[n]` is how much work n jobs get done together in a second; the last value also
  /// holds for more. Without values, each job has the speed 1 until their loads exceed 1 together.
  /// Requires: no values, or two or more, all but the first above zero.
  explicit Station(std::vector<double> total_speed) : total_speed_(std::move(total_speed)) {}

  /// `load` is the share of the station that the job keeps busy while it has the speed 1.
  /// Requires: no earlier time than in the last call.
  void add(double now_s, double work_s, Event event, double load = 1);
  /// Returns when the first of the jobs ends; infinity without a job.
  [[nodiscard]] double next_end_s() const;
  /// Ends that job.
  [[nodiscard]] Event finish(double now_s);
  [[nodiscard]] std::size_t jobs() const { return heap_.size(); }

 private:
  /// The job ends when each job has been served for `end_work_s` since the station began.
  struct Job {
    double end_work_s = 0;
    std::uint64_t order = 0;  ///< of arrival; equal jobs end in this order.
    double load = 1;
    Event event;
    bool operator>(const Job& other) const {
      return end_work_s != other.end_work_s ? end_work_s > other.end_work_s : order > other.order;
    }
  };
  [[nodiscard]] double speed() const;
  void serve_until(double now_s);

  std::vector<double> total_speed_;
  std::vector<Job> heap_;  ///< the first to end in front.
  double load_ = 0;        ///< of all jobs.
  double served_s_ = 0;    ///< work that each job has got since the station began.
  double last_s_ = 0;
  std::uint64_t arrivals_ = 0;
};

/// The virtual clock of a simulation, with its stations and timers. Events that end at the same
/// time come in a fixed order: timers in the order in which they were set, then stations in the
/// order in which they were made. Complexity: an event costs the logarithm of what is pending.
class EventLoop {
 public:
  using StationId = std::uint32_t;

  StationId add_station(std::vector<double> total_speed = {});
  /// Has a station do `work_s` seconds of work at the speed 1. `event` follows.
  void serve(StationId station, double work_s, Event event, double load = 1);
  /// `event` follows in `delay_s` seconds.
  void after(double delay_s, Event event);

  /// Moves to the next event and returns it. If there is none until a time, moves to that time, and
  /// returns nothing; without such a time, it stays.
  [[nodiscard]] std::optional<Event> next(double until_s = std::numeric_limits<double>::infinity());

  [[nodiscard]] double now_s() const { return now_s_; }
  [[nodiscard]] std::size_t jobs(StationId station) const { return stations_[station].jobs(); }

 private:
  struct Timer {
    double time_s = 0;
    std::uint64_t order = 0;
    Event event;
    bool operator>(const Timer& other) const {
      return time_s != other.time_s ? time_s > other.time_s : order > other.order;
    }
  };
  [[nodiscard]] bool sooner(StationId first, StationId second) const;
  void move(StationId station);

  double now_s_ = 0;
  std::uint64_t timers_set_ = 0;
  std::vector<Timer> timers_;  ///< a heap.
  std::vector<Station> stations_;
  std::vector<double> ends_s_;            ///< next_end_s() of each station.
  std::vector<StationId> heap_;           ///< of all stations, by their next ends.
  std::vector<std::uint32_t> positions_;  ///< of each station in the heap.
};

}  // namespace gpemu::pipeline
