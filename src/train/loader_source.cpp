// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <utility>

#include "gpemu/train/batch_source.hpp"

namespace gpemu::train {

LoaderSource::LoaderSource(data::Loader& loader, int epochs, std::optional<std::int64_t> max_steps)
    : loader_(loader),
      epochs_(epochs),
      steps_left_(max_steps.value_or(std::numeric_limits<std::int64_t>::max())) {}

Result<std::optional<SourceBatch>> LoaderSource::next() {
  if (steps_left_ <= 0) return std::nullopt;
  while (true) {
    if (epochs_started_ > 0) {
      Result<std::optional<data::Batch>> next = loader_.next();
      if (!next && next.error().code == ErrorCode::kInterrupted) return std::nullopt;
      GPEMU_ASSIGN(std::optional<data::Batch> loaded, std::move(next));
      if (loaded) {
        --steps_left_;
        SourceBatch batch;
        batch.epoch = epochs_started_ - 1;
        batch.samples = loaded->size();
        batch.work = loaded->work();
        batch.buffer = std::make_shared<data::Batch>(*std::move(loaded));
        return batch;
      }
    }
    if (epochs_started_ == epochs_) return std::nullopt;
    loader_.start_epoch(static_cast<std::uint64_t>(epochs_started_++));
  }
}

}  // namespace gpemu::train
