// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "gpemu/base/error.hpp"
#include "gpemu/pipeline/input_pipeline.hpp"
#include "gpemu/sim/clock.hpp"
#include "gpemu/train/batch_source.hpp"

namespace gpemu::train {

/// Batches of the loaders of described hosts, over several epochs, in virtual time.
class HostSource final : public BatchSource {
 public:
  /// Ends after `epochs` epochs, or after `max_steps` batches if given. `loaders` and `clock`,
  /// which does not run by itself, must outlive the source.
  HostSource(pipeline::DescribedLoaders& loaders, sim::Clock& clock, int epochs,
             std::optional<std::int64_t> max_steps);

  [[nodiscard]] Result<std::optional<SourceBatch>> next() override;

 private:
  pipeline::DescribedLoaders& loaders_;
  sim::Clock& clock_;
  int epochs_;
  int epochs_started_ = 0;
  std::int64_t steps_left_;
};

}  // namespace gpemu::train
