// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <utility>

namespace gpemu::sim {

/// Seeded random numbers whose sequence is the same on every platform: the engine is the standard's
/// mt19937_64, and the distributions are ours because the standard leaves theirs to the library.
///
/// Thread safety: none. Give each thread its own, seeded from the item on which it works.
class Rng {
 public:
  /// Makes a generator for `seed`. Further numbers (an epoch, a sample's index) distinguish its
  /// stream from others.
  template <typename... Streams>
  explicit Rng(std::uint64_t seed, Streams... streams) : engine_(mix(seed, streams...)) {}

  [[nodiscard]] std::uint64_t bits() { return engine_(); }

  /// Returns a number in [0, 1) with 53 random bits.
  [[nodiscard]] double uniform() { return static_cast<double>(bits() >> 11) * 0x1.0p-53; }

  /// Returns a number in [low, high).
  [[nodiscard]] double uniform(double low, double high) { return low + (high - low) * uniform(); }

  /// Returns an integer in [0, bound) without bias. Requires: bound > 0.
  [[nodiscard]] std::uint64_t below(std::uint64_t bound) {
    const std::uint64_t limit = ~std::uint64_t{0} - (~std::uint64_t{0} % bound + 1) % bound;
    std::uint64_t value = bits();
    while (value > limit) value = bits();
    return value % bound;
  }

  /// Puts the elements in random order (Fisher-Yates).
  template <typename T>
  void shuffle(std::span<T> elements) {
    for (std::size_t i = elements.size(); i > 1; --i) {
      std::swap(elements[i - 1], elements[below(i)]);
    }
  }

 private:
  // splitmix64's finaliser. Source: Steele, Lea, Flood, "Fast splittable pseudorandom number
  // generators", OOPSLA 2014.
  static constexpr std::uint64_t scramble(std::uint64_t value) {
    value += 0x9e3779b97f4a7c15;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
    value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
    return value ^ (value >> 31);
  }

  template <typename... Streams>
  static constexpr std::uint64_t mix(std::uint64_t seed, Streams... streams) {
    std::uint64_t state = scramble(seed);
    ((state = scramble(state ^ static_cast<std::uint64_t>(streams))), ...);
    return state;
  }

  std::mt19937_64 engine_;
};

}  // namespace gpemu::sim
