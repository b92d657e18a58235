// SPDX-License-Identifier: Apache-2.0
#include "device_sharing.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "gpemu/base/saturate.hpp"

namespace gpemu::device {
namespace {

/// If the work of other processes is queued for longer than this, a process checks whether they
/// live, at most once per period. A check asks the kernel for a lock of each process, about 0.3 us.
constexpr Duration kBacklogToLookInto = std::chrono::milliseconds(10);
constexpr Duration kLookPeriod = std::chrono::milliseconds(1);

/// First in, first out: a process gets time after everything that any process has reserved before.
class FirstInFirstOut final : public DeviceSharing {
 public:
  FirstInFirstOut(std::span<layout::EngineRecord> engines, layout::HoldingRecord& own, Trim trim)
      : engines_(engines), own_(own), trim_(std::move(trim)) {}

  /// Puts time at the end of the engine's queue. Several processes may do so at once: the one whose
  /// exchange succeeds first comes first, and none waits for another. A tail that is further away
  /// than any process queues is damage; the time then comes after this process's own tail instead.
  Reservation reserve(std::size_t engine, TimePoint now, TimePoint earliest,
                      Duration cost) override {
    layout::EngineRecord& record = engines_[engine];
    std::int64_t& own = tails_ns_[engine];
    std::atomic<std::int64_t>& published = own_.engines[engine].tail_ns;
    std::int64_t tail = tail_of_living(engine, now);
    const std::int64_t latest =
        saturating_add(std::max(to_ns(now), own), layout::kLongestQueue.count());
    std::int64_t start = 0;
    std::int64_t end = 0;
    std::int64_t queued = 0;
    do {
      queued = tail <= latest ? tail : own;
      start = std::max(to_ns(earliest), queued);
      end = saturating_add(start, cost.count());
      // Before the exchange, so that no process cuts the queue before this work's end.
      published.store(std::max(own, end), std::memory_order_relaxed);
    } while (!record.tail_ns.compare_exchange_weak(tail, end));
    own = std::max(own, end);
    if (start > std::max(queued, to_ns(now))) {
      layout::GapRecord& gap = record.gaps[record.gap_count++ % std::size(record.gaps)];
      gap.start_ns = std::max(queued, to_ns(now));
      gap.end_ns = start;
    }
    return {.start = at_ns(queued), .end = at_ns(end)};
  }

  [[nodiscard]] TimePoint next_start(std::size_t engine, TimePoint now, TimePoint from) override {
    const TimePoint tail = at_ns(tail_of_living(engine, now));
    return tail > saturating_add(std::max(now, from), layout::kLongestQueue) ? from
                                                                             : std::max(from, tail);
  }

  [[nodiscard]] bool is_last(std::size_t engine, TimePoint now) const override {
    return at_ns(engines_[engine].tail_ns) <= std::max(now, at_ns(tails_ns_[engine]));
  }

 private:
  /// Returns the end of an engine's queue, which may be damaged. Before this process queues after
  /// it, drops the work of dead processes, and repairs damage that would make this process wait for
  /// work that nobody has queued.
  std::int64_t tail_of_living(std::size_t engine, TimePoint now) {
    const std::int64_t tail = engines_[engine].tail_ns.load(std::memory_order_relaxed);
    const TimePoint expected = std::max(now, at_ns(tails_ns_[engine]));
    if (at_ns(tail) < saturating_add(expected, kBacklogToLookInto)) return tail;
    const bool is_damage = at_ns(tail) > saturating_add(expected, layout::kLongestQueue);
    if (now - looked_for_dead_[engine] < kLookPeriod && !is_damage) return tail;
    looked_for_dead_[engine] = now;
    trim_(engine, now, tails_ns_[engine]);
    return engines_[engine].tail_ns.load(std::memory_order_relaxed);
  }

  std::span<layout::EngineRecord> engines_;
  layout::HoldingRecord& own_;  ///< of this process, for others; the originals follow.
  std::array<std::int64_t, kEngineCount> tails_ns_{};
  Trim trim_;
  std::array<TimePoint, kEngineCount> looked_for_dead_{};
};

}  // namespace

std::unique_ptr<DeviceSharing> make_sharing(SharingPolicy policy,
                                            std::span<layout::EngineRecord> engines,
                                            layout::HoldingRecord& own, Trim trim) {
  switch (policy) {
    case SharingPolicy::kFifo:
    case SharingPolicy::kTimeSlices:  // SlicedSharing divides the time of the compute engine,
    case SharingPolicy::kMig:         // of each compute instance by itself.
    case SharingPolicy::kMps:         // It does so for these, too.
    case SharingPolicy::kAntMan:
    case SharingPolicy::kTgs:
    case SharingPolicy::kOrion:
      break;
  }
  return std::make_unique<FirstInFirstOut>(engines, own, std::move(trim));
}

}  // namespace gpemu::device
