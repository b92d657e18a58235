// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "gpemu/base/units.hpp"

namespace gpemu::device {

/// Counts how late things were, by microseconds. Thread safety: none.
class Lateness {
 public:
  void add(Duration late) {
    late = std::max(late, Duration());
    const auto us = static_cast<std::size_t>((late.count() + 999) / 1000);
    ++counts_[std::min(us, counts_.size() - 1)];
    ++total_;
    latest_ = std::max(latest_, late);
  }
  [[nodiscard]] std::uint64_t total() const { return total_; }
  [[nodiscard]] Duration latest() const { return latest_; }
  /// Returns the median, rounded up to a microsecond; a longer one than a millisecond is given as
  /// a millisecond.
  [[nodiscard]] Duration median() const {
    std::uint64_t seen = 0;
    std::size_t us = 0;
    while (us + 1 < counts_.size() && 2 * (seen += counts_[us]) < total_) ++us;
    return std::chrono::microseconds(us);
  }

 private:
  std::array<std::uint64_t, 1001> counts_{};
  std::uint64_t total_ = 0;
  Duration latest_{};
};

}  // namespace gpemu::device
