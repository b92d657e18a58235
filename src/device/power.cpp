// SPDX-License-Identifier: Apache-2.0
#include "power.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>

#include "gpemu/base/saturate.hpp"

namespace gpemu::device {
namespace {

/// The lowest share of the clock to which a power limit brings a board, about. With typical idle
/// power, that is 23 % of the board's limit. Source: the lowest limits that nvidia-smi -q prints
/// are 25 % (100 of 400 W) to 67 % (100 of 150 W).
constexpr double kLowestCappedClock = 0.5;

/// More attempts than readers ever need: somebody must change the settings during each.
constexpr int kMostPowerReads = 100;

/// What a kernel adds to the power, as a share of what one that reaches the board's limit adds.
/// Source: an H200 at its full clock (docs/design/measured-sharing.md): 0.39 for arithmetic in
/// FP32, 0.55 for copies within the memory, 0.97 for matrix products in BF16; this is the mean.
constexpr double kUsualShare = 0.64;

/// The most power that work can add at the full clock.
double dynamic_w(const DeviceFacts& facts) {
  return std::max(facts.max_power_w - facts.idle_power_w, 0.0);
}

/// Power grows with the clock and the square of the voltage, which follows the clock.
double dynamic_share(double clock) {
  return clock * clock * clock;
}

/// In whole watts, as of boards.
double lowest_limit_w(const DeviceFacts& facts) {
  const double lowest = facts.idle_power_w + dynamic_w(facts) * dynamic_share(kLowestCappedClock);
  return std::min(std::ceil(lowest), facts.max_power_w);
}

/// Returns the share of the clock that a power limit allows.
double clock_below(double limit_w, const DeviceFacts& facts) {
  // Anything else is the default, or damage.
  if (!(limit_w >= lowest_limit_w(facts) && limit_w < facts.max_power_w)) return 1;
  return std::cbrt((limit_w - facts.idle_power_w) / dynamic_w(facts));
}

double locked_share(double clock_mhz, const DeviceFacts& facts) {
  const double boost = facts.facts.boost_clock_mhz;
  if (!(clock_mhz >= kLowestLockedMhz && clock_mhz < boost)) return 1;
  return clock_mhz / boost;
}

/// Returns the place of the settings that count, or null without any.
const layout::PowerState* newest(const layout::PowerTable& table) {
  const layout::PowerState* found = nullptr;
  std::uint64_t highest = 0;
  for (const layout::PowerState& state : table.states) {
    const std::uint64_t number = state.number.load(std::memory_order_acquire);
    if (number <= highest) continue;
    highest = number;
    found = &state;
  }
  return found;
}

PowerSettings copy_of(const layout::PowerState& state) {
  return {.number = state.number,
          .from = at_ns(state.time_ns),
          .busy = Duration(state.busy_ns),
          .capped = Duration(state.capped_ns),
          .energy_j = state.energy_j,
          .limit_w = state.limit_w,
          .clock_mhz = state.clock_mhz};
}

}  // namespace

PowerSettings read_power(const layout::PowerTable& table) {
  for (int attempt = 0;; ++attempt) {
    const layout::PowerState* const state = newest(table);
    if (state == nullptr) return {};
    const std::uint64_t number = state->number.load(std::memory_order_acquire);
    PowerSettings settings = copy_of(*state);
    settings.number = number;
    std::atomic_thread_fence(std::memory_order_acquire);
    if (state->number.load() == number && number != 0) return settings;
    if (attempt == kMostPowerReads) return {};
  }
}

PowerSettings read_power(const layout::PowerTable& before, const layout::PowerTable& after) {
  // What was complete before is still so, unless its place has been taken since.
  const layout::PowerState* const state = newest(before);
  if (state == nullptr) return {};
  const layout::PowerState& same = after.states[state - before.states];
  return same.number == state->number ? copy_of(same) : read_power(after);
}

bool write_power(layout::PowerTable& table, std::uint64_t taken, PowerSettings& settings) {
  const std::uint64_t number = std::max(taken, settings.number) + 1;
  if (!table.taken.compare_exchange_strong(taken, number)) return false;
  layout::PowerState& state = table.states[number % layout::kPowerStates];
  state.number = 0;
  state.time_ns = to_ns(settings.from);
  state.busy_ns = settings.busy.count();
  state.capped_ns = settings.capped.count();
  state.energy_j = settings.energy_j;
  state.limit_w = settings.limit_w;
  state.clock_mhz = settings.clock_mhz;
  state.number.store(number, std::memory_order_release);
  settings.number = number;
  return true;
}

PowerSnapshot power_at(const PowerSettings& settings, const DeviceFacts& facts, Duration busy,
                       TimePoint now) {
  const double capped_clock = clock_below(settings.limit_w, facts);
  const double locked = locked_share(settings.clock_mhz, facts);
  PowerSnapshot power{.limit_w = capped_clock < 1 ? settings.limit_w : facts.max_power_w,
                      .min_limit_w = lowest_limit_w(facts),
                      .locked_clock_mhz = locked < 1 ? settings.clock_mhz : 0,
                      .clock = std::min(capped_clock, locked),
                      .capped = capped_clock < locked};
  const Duration elapsed(
      std::max(saturating_subtract(to_ns(now), to_ns(settings.from)), std::int64_t{0}));
  const Duration worked(
      std::max(saturating_subtract(busy.count(), settings.busy.count()), std::int64_t{0}));
  power.busy_w = facts.idle_power_w + kUsualShare * dynamic_w(facts) * dynamic_share(power.clock);
  // More is damage: it would take a board longer than the clock lasts.
  constexpr double kMostJoules = 1e15;
  power.energy_j = (settings.energy_j > 0 ? std::min(settings.energy_j, kMostJoules) : 0) +
                   facts.idle_power_w * to_seconds(elapsed) +
                   (power.busy_w - facts.idle_power_w) * to_seconds(worked);
  power.capped_time = std::max(settings.capped, Duration());
  if (power.capped) {
    power.capped_time = Duration(saturating_add(power.capped_time.count(), worked.count()));
  }
  return power;
}

void LaunchClock::look() {
  const PowerSettings settings = read_power(*table_);
  number_ = settings.number;
  clock_ = power_at(settings, *facts_, {}, {}).clock;
}

Duration LaunchClock::slowed(Duration cost, double memory_share) const {
  // NaN counts as 0, too.
  const double memory = memory_share > 0 ? std::min(memory_share, 1.0) : 0;
  return from_nanoseconds(static_cast<double>(cost.count()) * (memory + (1 - memory) / clock_));
}

}  // namespace gpemu::device
