// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "launch_policy.hpp"
#include "solo_rate.hpp"

namespace gpemu::device {
namespace {

/// TGS (NSDI 2023): the rate at which an opportunistic job may launch kernels grows as long as the
/// production job's kernels arrive as fast as without it, and is cut when they do not, as the rate
/// of a sender in a network. Source of all numbers: pkusys/TGS, hijack/src, unless one says
/// otherwise.
class Tgs final : public LaunchPolicy {
 public:
  TimePoint launch_from(const LaunchView& view, const KernelLaunch& /*kernel*/) override {
    if (rate_.update(view.now, view.queued)) adjust();
    if (view.now - window_ >= kWindow) {
      window_ = view.now - (view.now - window_) % kWindow;
      launched_ = {};
    }
    return launched_ <= limit_ ? view.now : window_ + kWindow;
  }
  void note_launch(const KernelLaunch& kernel) override { launched_ += kernel.cost; }

 private:
  /// The limit holds for each of these. The published code counts blocks; 20,000 of them are the
  /// first limit, and 1,000 the least step. Here, the first limit is 2 % of the GPU's time.
  static constexpr Duration kWindow = std::chrono::milliseconds(50);
  static constexpr Duration kFirstLimit = kWindow / 50;
  static constexpr Duration kLeastStep = kFirstLimit / 20;
  /// A limit does not grow beyond the GPU's time.
  static constexpr Duration kMostLimit = kWindow;
  static constexpr double kTolerance = 0.03;  ///< of the production job's rate.

  void adjust() {
    if (!rate_.is_measured()) {
      limit_ = {};
      state_ = State::kMeasures;
    } else if (state_ == State::kMeasures) {
      limit_ = kFirstLimit;
      state_ = State::kSlowStart;
    } else if (rate_.is_idle()) {
      limit_ = kMostLimit;
      state_ = State::kSlowStart;
    } else {
      follow(rate_.loss());
    }
    limit_ = std::clamp(limit_, Duration(), kMostLimit);
  }

  void follow(double loss) {
    if (state_ == State::kSlowStart) {
      if (loss <= kTolerance) {
        limit_ += limit_ / 2 + Duration(1);
      } else {
        limit_ = limit_ * 2 / 3;
        state_ = State::kAvoids;
      }
    } else if (loss <= kTolerance) {
      // 2.5 % of what the production job takes of a window.
      limit_ += std::max(std::chrono::duration_cast<Duration>(kWindow * (rate_.rate() * 0.025)),
                         kLeastStep);
    } else {
      limit_ -= std::max(limit_ * 8 / 100, kLeastStep);
    }
    if (state_ == State::kAvoids && loss >= 3 * kTolerance) {
      limit_ /= 10;
      state_ = State::kSlowStart;
    }
    slow_periods_ = loss >= kLasting ? slow_periods_ + 1 : 0;
    if (slow_periods_ < kMostSlowPeriods) return;
    slow_periods_ = 0;
    rate_.lower(0.8);
    limit_ /= 2;
    state_ = State::kSlowStart;
  }

  /// A loss of kLasting or more for kMostSlowPeriods is no longer blamed on the opportunistic job.
  static constexpr double kLasting = 0.12;
  static constexpr int kMostSlowPeriods = 20;

  enum class State { kMeasures, kSlowStart, kAvoids };
  State state_ = State::kMeasures;
  SoloRate rate_;
  TimePoint window_{};   ///< its start.
  Duration launched_{};  ///< in the window.
  Duration limit_{};     ///< in each window; one kernel may exceed it.
  int slow_periods_ = 0;
};

}  // namespace

std::unique_ptr<LaunchPolicy> make_tgs() {
  return std::make_unique<Tgs>();
}

}  // namespace gpemu::device
