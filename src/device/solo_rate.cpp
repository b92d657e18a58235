// SPDX-License-Identifier: Apache-2.0
#include "solo_rate.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace gpemu::device {
namespace {

/// A rate that differs less than this from the one without disturbance may become it; one that
/// differs by more than the second number shows that the processes now do something else.
constexpr double kSame = 0.1;
constexpr double kOther = 0.2;

/// Less work per time counts as nothing.
constexpr double kIdleRate = 0.001;

}  // namespace

bool SoloRate::update(TimePoint now, Duration queued) {
  const Duration before = std::exchange(seen_, queued);
  if (!has_started_) {
    has_started_ = true;
    start_ = now;
    queued_ = queued;
    return false;
  }
  if (now - start_ < kPeriod || (queued == before && now - start_ < 2 * kPeriod)) return false;
  // Whoever leaves takes along what it has queued.
  const Duration work = std::max(before - queued_, Duration());
  rates_.push_back(static_cast<double>(work.count()) / static_cast<double>((now - start_).count()));
  if (rates_.size() > kWindow) rates_.pop_front();
  start_ = now;
  queued_ = before;
  if (is_measured()) {
    compare();
  } else if (++undisturbed_ == kWindow) {
    solo_ = best();
  }
  return true;
}

/// Returns the largest mean of two periods, one after the other: a step may end in either.
double SoloRate::best() const {
  double best = 0;
  for (std::size_t i = 1; i < rates_.size(); ++i) {
    best = std::max(best, (rates_[i - 1] + rates_[i]) / 2);
  }
  return best;
}

void SoloRate::compare() {
  const double change = solo_ > 0 ? (best() - solo_) / solo_ : (best() > kIdleRate ? 1 : 0);
  if (std::abs(change) <= kSame) {
    solo_ = std::max(solo_, best());
  } else if (std::abs(change) > kOther && !is_idle()) {
    undisturbed_ = 0;
    rates_.clear();
  }
}

double SoloRate::loss() const {
  if (solo_ <= 0 || rates_.empty()) return 0;
  return std::max(0.0, (solo_ - rates_.back()) / solo_);
}

bool SoloRate::is_idle() const {
  const auto idle = std::ranges::count_if(rates_, [](double rate) { return rate < kIdleRate; });
  return idle * 5 > static_cast<std::ptrdiff_t>(kWindow) * 2;
}

}  // namespace gpemu::device
