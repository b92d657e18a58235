// SPDX-License-Identifier: Apache-2.0
#include "gpemu/scheduling/use_over_time.hpp"

#include <algorithm>

namespace gpemu::scheduling {

void UseOverTime::double_length() {
  for (std::size_t i = 0; i < kIntervals / 2; ++i) {
    gpu_s_[i] = gpu_s_[2 * i] + gpu_s_[2 * i + 1];
  }
  std::fill(gpu_s_.begin() + kIntervals / 2, gpu_s_.end(), 0.0);
  length_s_ *= 2;
}

void UseOverTime::add(double begin_s, double end_s, double gpus) {
  if (end_s <= begin_s) return;
  while (end_s > length_s_ * static_cast<double>(kIntervals)) double_length();
  end_s_ = end_s;
  auto interval = std::min(static_cast<std::size_t>(begin_s / length_s_), kIntervals - 1);
  for (double at_s = begin_s; at_s < end_s && interval < kIntervals; ++interval) {
    const bool is_last = interval == kIntervals - 1;
    const double until_s =
        is_last ? end_s : std::min(end_s, static_cast<double>(interval + 1) * length_s_);
    gpu_s_[interval] += gpus * (until_s - at_s);
    at_s = until_s;
  }
}

std::vector<UseOverTime::Interval> UseOverTime::intervals() const {
  std::vector<Interval> all;
  for (std::size_t i = 0; i < kIntervals; ++i) {
    const double begin_s = static_cast<double>(i) * length_s_;
    if (begin_s >= end_s_) break;
    const double end_s = std::min(begin_s + length_s_, end_s_);
    all.push_back({.begin_s = begin_s, .end_s = end_s, .gpus = gpu_s_[i] / (end_s - begin_s)});
  }
  return all;
}

}  // namespace gpemu::scheduling
