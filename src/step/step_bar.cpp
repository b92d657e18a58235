// SPDX-License-Identifier: Apache-2.0
#include "gpemu/step/step_bar.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace gpemu::step {
namespace {

/// What a bar contains, and the quantile of the normal distribution that belongs to it.
constexpr double kContained = 0.9;
constexpr double kQuantile = 1.6448536269514722;

/// Returns the probability that a time is at most `limit`.
double probability(const BarredTime& time, double limit) {
  if (time.time <= 0) return 1;
  const double distance = std::log(limit / time.time);
  if (time.bar <= 0) return distance >= 0 ? 1 : 0;
  const double deviation = std::log1p(time.bar) / kQuantile;
  return std::erfc(-distance / deviation / std::numbers::sqrt2) / 2;
}

}  // namespace

double bar_of_mixed(double mean) {
  return std::pow(1 + mean, kMixedSteps) - 1;
}

double bar_of_longer(const BarredTime& one, const BarredTime& other) {
  const double longer = std::max(one.time, other.time);
  if (longer <= 0) return std::max(one.bar, other.bar);
  const auto at_most = [&](double limit) {
    return probability(one, limit) * probability(other, limit);
  };
  // Two of the same length have a narrower bar than each of them if they err independently, which
  // nothing shows.
  double low = std::min(one.bar, other.bar), high = std::max(one.bar, other.bar);
  constexpr int kHalvings = 40;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    const bool enough =
        at_most(longer * (1 + middle)) - at_most(longer / (1 + middle)) >= kContained;
    (enough ? high : low) = middle;
  }
  return high;
}

}  // namespace gpemu::step
