// SPDX-License-Identifier: Apache-2.0
#include "gpemu/train/host_source.hpp"

#include <limits>

namespace gpemu::train {
namespace {

/// The loaders' time has the same origin as the virtual clock's.
double seconds_of(TimePoint time) {
  return to_seconds(time.time_since_epoch());
}

}  // namespace

HostSource::HostSource(pipeline::DescribedLoaders& loaders, sim::Clock& clock, int epochs,
                       std::optional<std::int64_t> max_steps)
    : loaders_(loaders),
      clock_(clock),
      epochs_(epochs),
      steps_left_(max_steps.value_or(std::numeric_limits<std::int64_t>::max())) {
  GPEMU_CHECK(!clock.runs_by_itself(), "described hosts work in virtual time");
}

Result<std::optional<SourceBatch>> HostSource::next() {
  if (steps_left_ <= 0) return std::nullopt;
  while (true) {
    const double now_s = seconds_of(clock_.now());
    if (epochs_started_ > 0) {
      if (const std::optional<pipeline::TakenBatch> taken = loaders_.take(now_s)) {
        --steps_left_;
        clock_.wait_until(TimePoint(from_seconds(taken->ready_s)));
        SourceBatch batch;
        batch.epoch = epochs_started_ - 1;
        batch.samples = static_cast<int>(taken->samples);
        batch.work = {.fetch = from_seconds(taken->read_s),
                      .prep = from_seconds(taken->prepare_s),
                      .bytes_read = taken->storage_bytes};
        return batch;
      }
    }
    if (epochs_started_ == epochs_) return std::nullopt;
    loaders_.start_epoch(static_cast<std::uint64_t>(epochs_started_++), now_s);
  }
}

}  // namespace gpemu::train
