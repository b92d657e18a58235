// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace gpemu::process {

/// What a thread did before it asked a device for work: it computed, or it was blocked. Estimated
/// from its CPU time between two samples. All times are in nanoseconds.
///
/// Thread safety: each thread has its own.
class HostTime {
 public:
  /// Returns the CPU time of the calling thread. A call costs 0.2 us, so it is made only if the
  /// answer is needed.
  using ProcessorTime = std::int64_t (*)();

  /// The parts of an idle time. They sum to less than all of it while there is no sample.
  struct Parts {
    std::int64_t computing = 0;
    std::int64_t blocked = 0;
  };

  /// A thread that asks for work again within this time was computing, because blocking and waking
  /// take about as long. Source: measured on Linux with a pipe between two threads, 5 to 20 us.
  static constexpr std::int64_t kShortGap = 20'000;

  /// How old the last sample may become.
  static constexpr std::int64_t kSamplePeriod = 1'000'000;

  /// Divides the idle time of a device that ends now, because the thread asks it for work.
  [[nodiscard]] Parts divide(std::int64_t gap, std::int64_t now, ProcessorTime processor_time);

  /// Samples the CPU time, so that what was before does not count in later gaps.
  void sample(std::int64_t now, ProcessorTime processor_time) {
    sampled_at_ = now;
    sampled_processor_ = processor_time();
  }

  /// Takes a sample if the last one is old. Called for each operation.
  void sample_if_old(std::int64_t now, ProcessorTime processor_time) {
    if (now - sampled_at_ > kSamplePeriod) sample(now, processor_time);
  }

  /// Adds time for which the thread has waited for late bytes. It counts as blocked in the next
  /// idle time that is divided.
  void add_late_wait(std::int64_t time) { late_wait_ += time; }

 private:
  std::int64_t sampled_at_ = 0;  ///< 0: never.
  std::int64_t sampled_processor_ = 0;
  std::int64_t late_wait_ = 0;  ///< since the thread last asked for work.
};

}  // namespace gpemu::process
