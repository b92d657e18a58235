// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <vector>

namespace gpemu::scheduling {

/// How many GPUs jobs held, over the time of a simulation, in a few hundred intervals of equal
/// length. It needs no more memory for a longer simulation. Units: seconds.
class UseOverTime {
 public:
  struct Interval {
    double begin_s = 0;
    double end_s = 0;
    double gpus = 0;  ///< on average.
  };

  /// Adds that so many GPUs were held from `begin_s` to `end_s`. Requires: calls are in order.
  void add(double begin_s, double end_s, double gpus);
  [[nodiscard]] std::vector<Interval> intervals() const;

 private:
  static constexpr std::size_t kIntervals = 512;

  void double_length();

  std::array<double, kIntervals> gpu_s_{};
  double length_s_ = 1;  ///< of an interval.
  double end_s_ = 0;
};

}  // namespace gpemu::scheduling
