// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace gpemu::scheduling {

/// For tests: random numbers that are the same on every machine. The generator is Knuth's linear
/// congruential one (MMIX).
class RandomDraws {
 public:
  explicit RandomDraws(std::uint64_t seed) : state_(seed) {}

  /// Returns a number from 0 to `below` - 1.
  std::uint64_t operator()(std::uint64_t below) {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return (state_ >> 33U) % below;
  }

 private:
  std::uint64_t state_;
};

}  // namespace gpemu::scheduling
