// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>

#include "gpemu/base/units.hpp"

namespace gpemu::device {

/// How much work processes queue per time, compared to what they queue while nobody disturbs them.
///
/// A period lasts until they queue the next work, so that it consists of whole steps: else, a step
/// more or less would look like a change of the rate.
///
/// All numbers are those of the published code of TGS (pkusys/TGS, hijack/src), which counts blocks
/// of kernels where this counts their GPU time.
class SoloRate {
 public:
  static constexpr Duration kPeriod = std::chrono::seconds(5);
  static constexpr std::size_t kWindow = 5;  ///< periods that are kept.

  /// Looks at all the work that they have ever queued. Returns whether a period has ended.
  bool update(TimePoint now, Duration queued);

  /// Returns whether nobody may disturb them, because their rate must be measured first.
  [[nodiscard]] bool is_measured() const { return undisturbed_ >= kWindow; }
  /// Returns which part of their rate they lost in the last period. Requires: is_measured().
  [[nodiscard]] double loss() const;
  /// Returns whether they queued nothing in most of the last periods.
  [[nodiscard]] bool is_idle() const;
  /// Returns the rate, in GPU time per time. Requires: is_measured().
  [[nodiscard]] double rate() const { return solo_; }
  /// Returns when the period ends.
  [[nodiscard]] TimePoint period_end() const { return start_ + kPeriod; }
  /// Takes a lower rate for the one without disturbance. Requires: 0 < share < 1.
  void lower(double share) { solo_ *= share; }

 private:
  [[nodiscard]] double best() const;
  void compare();

  TimePoint start_{};  ///< of the period.
  Duration queued_{};  ///< before then.
  Duration seen_{};    ///< what had been queued at the last look.
  bool has_started_ = false;
  std::deque<double> rates_;     ///< the last ones.
  std::size_t undisturbed_ = 0;  ///< periods that were measured.
  double solo_ = 0;
};

}  // namespace gpemu::device
