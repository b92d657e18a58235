// SPDX-License-Identifier: Apache-2.0
#include "gpemu/step/rank_slowdown.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace gpemu::step {
namespace {

/// The quartiles of a normal distribution are so many standard deviations from its mean.
constexpr double kQuartile = 0.6745;
/// From whisker to whisker: four distances between the quartiles.
constexpr double kWhiskers = 4 * 2 * kQuartile;

/// Returns the probability that a normal value of deviation 1 is at most x.
double probability(double x) {
  return std::erfc(-x / std::numbers::sqrt2) / 2;
}

/// Returns the mean of the largest of `count` such values: the integral of the probability that it
/// is above x, for x > 0, less that it is below x, for x < 0.
double largest_of(int count) {
  constexpr double kEnd = 8, kStep = 1.0 / 256;
  double sum = 0;
  for (double x = kStep / 2; x < kEnd; x += kStep) {
    sum += 1 - std::pow(probability(x), count) - std::pow(probability(-x), count);
  }
  return sum * kStep;
}

}  // namespace

double slowest_of(int ranks, double variation) {
  return ranks < 2 ? 0 : std::max(0.0, largest_of(ranks)) * variation / kWhiskers;
}

}  // namespace gpemu::step
