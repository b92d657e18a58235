// SPDX-License-Identifier: Apache-2.0
#include "go_random.hpp"

namespace gpemu::scheduling {
namespace {

constexpr std::size_t kLength = GoRandom::kLength;
constexpr std::uint64_t kModulus = (std::uint64_t{1} << 31U) - 1;
/// The numbers that seed the state, of a multiplicative generator, start after so many.
constexpr int kSkipped = 20;

/// Returns the numbers of a state in the order of its seeds. Each is put together of three numbers
/// of a multiplicative generator, shifted by `shift` twice.
GoRandom::State seeded(std::int64_t seed, unsigned shift) {
  constexpr std::uint64_t kFactor = 48271;
  constexpr std::uint64_t kInsteadOfZero = 89482311;
  std::int64_t rest = seed % static_cast<std::int64_t>(kModulus);
  if (rest < 0) rest += static_cast<std::int64_t>(kModulus);
  std::uint64_t x = rest == 0 ? kInsteadOfZero : static_cast<std::uint64_t>(rest);
  const auto next = [&] { return x = x * kFactor % kModulus; };
  for (int i = 0; i < kSkipped; ++i) next();
  GoRandom::State state{};
  for (std::uint64_t& word : state) {
    word = next() << (2 * shift);
    word ^= next() << shift;
    word ^= next();
  }
  return state;
}

/// A polynomial modulo x^607 - x^334 - 1, which is what the generator's recurrence makes 0; its
/// coefficients are modulo 2^64.
using Polynomial = GoRandom::State;
constexpr std::size_t kMiddle = kLength - GoRandom::kTap;

Polynomial times_x(const Polynomial& p) {
  Polynomial result{};
  for (std::size_t i = 1; i < kLength; ++i) result[i] = p[i - 1];
  result[0] += p[kLength - 1];
  result[kMiddle] += p[kLength - 1];
  return result;
}

Polynomial square(const Polynomial& p) {
  std::array<std::uint64_t, 2 * kLength - 1> wide{};
  for (std::size_t i = 0; i < kLength; ++i) {
    for (std::size_t j = 0; j < kLength; ++j) wide[i + j] += p[i] * p[j];
  }
  for (std::size_t i = wide.size() - 1; i >= kLength; --i) {
    wide[i - kLength] += wide[i];
    wide[i - kLength + kMiddle] += wide[i];
  }
  Polynomial result{};
  for (std::size_t i = 0; i < kLength; ++i) result[i] = wide[i];
  return result;
}

/// Returns where a state has the number that was drawn as the `n`th, from 0. It is the place at
/// which the number drawn 607 draws before stood.
constexpr std::size_t place_of(std::uint64_t n) {
  return (kMiddle - 1 + kLength - n % kLength) % kLength;
}

/// Returns what each seed's state is mixed with: the state of the generator with the seed 1 after
/// 7.8e12 draws. Source: src/math/rand/gen_cooked.go of Go. We jump there.
GoRandom::State far_state() {
  constexpr std::uint64_t kDraws = 7'800'000'000'000;
  const GoRandom::State first = seeded(1, 10);
  Polynomial power{};
  power[0] = 1;
  for (unsigned bit = 64; bit-- > 0;) {
    power = square(power);
    if ((kDraws >> bit & 1U) != 0) power = times_x(power);
  }
  GoRandom::State state{};
  for (std::size_t i = 0; i < kLength; ++i, power = times_x(power)) {
    std::uint64_t& word = state[place_of(kDraws + i)];
    for (std::size_t j = 0; j < kLength; ++j) word += power[j] * first[place_of(j)];
  }
  return state;
}

}  // namespace

GoRandom::GoRandom(std::int64_t seed) : state_(seeded(seed, 20)) {
  static const State kFar = far_state();
  for (std::size_t i = 0; i < kLength; ++i) state_[i] ^= kFar[i];
}

std::uint64_t GoRandom::bits() {
  tap_ = (tap_ + kLength - 1) % kLength;
  feed_ = (feed_ + kLength - 1) % kLength;
  return state_[feed_] += state_[tap_];
}

std::uint32_t GoRandom::below(std::uint32_t bound) {
  const auto draw = [this] { return static_cast<std::uint32_t>(bits() >> 32U & kModulus); };
  if ((bound & (bound - 1)) == 0) return draw() & (bound - 1);
  const auto most = static_cast<std::uint32_t>(kModulus - (kModulus + 1) % bound);
  std::uint32_t number = draw();
  while (number > most) number = draw();
  return number % bound;
}

std::uint32_t GoRandom::below_by_product(std::uint32_t bound) {
  const auto draw = [&] { return (bits() >> 31U & 0xFFFFFFFFU) * bound; };
  std::uint64_t product = draw();
  const std::uint32_t least = (0U - bound) % bound;
  while (static_cast<std::uint32_t>(product) < least) product = draw();
  return static_cast<std::uint32_t>(product >> 32U);
}

void GoRandom::permute(std::span<std::uint32_t> places) {
  for (std::uint32_t i = 0; i < places.size(); ++i) {
    const std::uint32_t other = below(i + 1);
    places[i] = places[other];
    places[other] = i;
  }
}

}  // namespace gpemu::scheduling
