// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace gpemu::scheduling {

/// The numbers that Go's package math/rand draws from a seed, for simulations that a program in Go
/// has published: an additive lagged Fibonacci generator. Thread safety: none.
///
/// Source: the documentation of math/rand, and of its generator in src/math/rand/rng.go of Go 1.20.
class GoRandom {
 public:
  explicit GoRandom(std::int64_t seed);

  /// Returns 64 random bits.
  std::uint64_t bits();
  /// Returns a number below `bound`, as Intn. Requires: 1 <= bound < 2^31.
  std::uint32_t below(std::uint32_t bound);
  /// Skips what Float64 draws for one number, except once in 2^53 times.
  void skip_float() { bits(); }

  /// Puts the elements into a random order, as Shuffle. Requires: fewer than 2^31.
  template <typename Element>
  void shuffle(std::span<Element> elements) {
    for (std::size_t i = elements.size(); i > 1; --i) {
      std::swap(elements[i - 1], elements[below_by_product(static_cast<std::uint32_t>(i))]);
    }
  }
  /// Fills `places` with a permutation of 0, 1, ..., as Perm. Requires: fewer than 2^31.
  void permute(std::span<std::uint32_t> places);

  static constexpr std::size_t kLength = 607;
  static constexpr std::size_t kTap = 273;
  using State = std::array<std::uint64_t, kLength>;

 private:
  /// Returns a number below `bound`, as Shuffle draws it.
  std::uint32_t below_by_product(std::uint32_t bound);

  State state_{};
  std::size_t tap_ = 0;
  std::size_t feed_ = kLength - kTap;
};

}  // namespace gpemu::scheduling
