// SPDX-License-Identifier: Apache-2.0
#include "gpemu/train/batch_source.hpp"

namespace gpemu::train {

Result<std::optional<SourceBatch>> SyntheticSource::next() {
  if (steps_left_ <= 0) return std::nullopt;
  --steps_left_;
  SourceBatch batch;
  batch.samples = batch_;
  batch.on_device = place_ == Place::kDevice;
  return batch;
}

}  // namespace gpemu::train
