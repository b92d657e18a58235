// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "gpemu/device/node.hpp"
#include "gpemu/sim/clock.hpp"

namespace gpemu {

/// The virtual clock of several programs that wait, each in a thread of its own: one of them runs
/// at a time, and time passes when all wait. So a run is the same each time, to the nanosecond.
///
/// It settles the nodes of the parties, as the threads that do so on a real clock.
class Parties final : public sim::Clock {
 public:
  using Program = std::function<void()>;

  void add(std::shared_ptr<device::Node> node, Program program) {
    nodes_.push_back(std::move(node));
    programs_.push_back(std::move(program));
  }

  /// Runs all programs from time 0 to their ends.
  void run() {
    due_.assign(programs_.size(), TimePoint{});
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < programs_.size(); ++i) {
      threads.emplace_back([this, i] {
        own_ = i;
        wait_for_turn(i);
        programs_[i]();
        std::unique_lock lock(mutex_);
        due_[i] = kEnded;
        pass_turn(lock);
      });
    }
    {
      std::unique_lock lock(mutex_);
      pass_turn(lock);
    }
    for (std::thread& thread : threads) thread.join();
    programs_.clear();  // They may own this clock.
  }

  [[nodiscard]] TimePoint now() const override { return now_; }
  void wait_until(TimePoint deadline) override {
    if (deadline <= now_) return;
    {
      std::unique_lock lock(mutex_);
      due_[own_] = deadline;
      pass_turn(lock);
    }
    wait_for_turn(own_);
  }
  void wait_for_change(const std::atomic<std::uint32_t>&, std::uint32_t,
                       TimePoint deadline) override {
    // Whatever changes does so at a time that a node knows, and waiting may end early.
    wait_until(std::min(deadline, now_ + std::chrono::milliseconds(1)));
  }
  [[nodiscard]] bool runs_by_itself() const override { return false; }

 private:
  static constexpr TimePoint kEnded = TimePoint::max();

  void wait_for_turn(std::size_t own) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return has_turn_ && turn_ == own; });
  }
  /// Lets the party run that is due first, after the nodes have settled what comes before.
  void pass_turn(std::unique_lock<std::mutex>& /*lock*/) {
    has_turn_ = false;
    const auto next = static_cast<std::size_t>(std::ranges::min_element(due_) - due_.begin());
    if (due_[next] == kEnded) return;
    while (due_[next] > now_) {
      TimePoint look = due_[next];
      for (const auto& node : nodes_) {
        const TimePoint due = node->settle(now_);
        if (due > now_) look = std::min(look, due);
      }
      now_ = look;
    }
    turn_ = next;
    has_turn_ = true;
    changed_.notify_all();
  }

  inline static thread_local std::size_t own_ = 0;
  std::vector<std::shared_ptr<device::Node>> nodes_;
  std::vector<Program> programs_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool has_turn_ = false;
  std::size_t turn_ = 0;
  std::vector<TimePoint> due_;
  TimePoint now_{};  ///< changed while all parties wait.
};

}  // namespace gpemu
