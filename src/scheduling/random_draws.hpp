// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace gpemu::scheduling {

#if defined(GPEMU_SANITIZE_ADDRESS) || defined(GPEMU_SANITIZE_THREAD)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

/// For tests: returns how many instances to try. With a sanitizer, each takes 30 times as long.
constexpr int instances(int count) {
  return kSanitized ? count / 50 : count;
}

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
