// SPDX-License-Identifier: Apache-2.0
#include "gpemu/pipeline/event_loop.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "gpemu/base/error.hpp"

namespace gpemu::pipeline {

double Station::speed() const {
  if (total_speed_.empty()) return 1 / std::max(1.0, load_);
  const std::size_t jobs = std::min(heap_.size(), total_speed_.size() - 1);
  return total_speed_[jobs] / static_cast<double>(heap_.size());
}

void Station::serve_until(double now_s) {
  if (!heap_.empty()) served_s_ += (now_s - last_s_) * speed();
  last_s_ = now_s;
}

void Station::add(double now_s, double work_s, Event event, double load) {
  serve_until(now_s);
  // Nobody else waits, so the sums may start again, which keeps them precise.
  if (heap_.empty()) served_s_ = load_ = 0;
  heap_.push_back(
      {.end_work_s = served_s_ + work_s, .order = arrivals_++, .load = load, .event = event});
  load_ += load;
  std::ranges::push_heap(heap_, std::greater{});
}

double Station::next_end_s() const {
  if (heap_.empty()) return std::numeric_limits<double>::infinity();
  return last_s_ + std::max(0.0, heap_.front().end_work_s - served_s_) / speed();
}

Event Station::finish(double now_s) {
  serve_until(now_s);
  std::ranges::pop_heap(heap_, std::greater{});
  const Event event = heap_.back().event;
  // Rounding must not leave some of its work to be done.
  served_s_ = std::max(served_s_, heap_.back().end_work_s);
  load_ -= heap_.back().load;
  heap_.pop_back();
  return event;
}

EventLoop::StationId EventLoop::add_station(std::vector<double> total_speed) {
  const auto station = static_cast<StationId>(stations_.size());
  stations_.emplace_back(std::move(total_speed));
  ends_s_.push_back(std::numeric_limits<double>::infinity());
  positions_.push_back(station);
  heap_.push_back(station);
  return station;
}

bool EventLoop::sooner(StationId first, StationId second) const {
  return ends_s_[first] != ends_s_[second] ? ends_s_[first] < ends_s_[second] : first < second;
}

void EventLoop::move(StationId station) {
  ends_s_[station] = stations_[station].next_end_s();
  std::size_t at = positions_[station];
  const auto place = [this](std::size_t position, StationId moved) {
    heap_[position] = moved;
    positions_[moved] = static_cast<std::uint32_t>(position);
  };
  while (at > 0 && sooner(station, heap_[(at - 1) / 2])) {
    place(at, heap_[(at - 1) / 2]);
    at = (at - 1) / 2;
  }
  while (true) {
    std::size_t child = 2 * at + 1;
    if (child >= heap_.size()) break;
    if (child + 1 < heap_.size() && sooner(heap_[child + 1], heap_[child])) ++child;
    if (!sooner(heap_[child], station)) break;
    place(at, heap_[child]);
    at = child;
  }
  place(at, station);
}

void EventLoop::serve(StationId station, double work_s, Event event, double load) {
  stations_[station].add(now_s_, work_s, event, load);
  move(station);
}

void EventLoop::after(double delay_s, Event event) {
  timers_.push_back({.time_s = now_s_ + delay_s, .order = timers_set_++, .event = event});
  std::ranges::push_heap(timers_, std::greater{});
}

std::optional<Event> EventLoop::next(double until_s) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  const double station_s = heap_.empty() ? kNever : ends_s_[heap_.front()];
  const double timer_s = timers_.empty() ? kNever : timers_.front().time_s;
  const double next_s = std::min(timer_s, station_s);
  if (next_s == kNever || next_s > until_s) {
    if (until_s != kNever) now_s_ = std::max(now_s_, until_s);
    return std::nullopt;
  }
  now_s_ = std::max(now_s_, next_s);
  if (timer_s <= station_s) {
    std::ranges::pop_heap(timers_, std::greater{});
    const Event event = timers_.back().event;
    timers_.pop_back();
    return event;
  }
  const StationId station = heap_.front();
  const Event event = stations_[station].finish(now_s_);
  move(station);
  return event;
}

}  // namespace gpemu::pipeline
