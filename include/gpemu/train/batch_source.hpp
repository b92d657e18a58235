// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/data/loader.hpp"

namespace gpemu::train {

/// One batch as the training loop sees it.
struct SourceBatch {
  int epoch = 0;
  int samples = 0;
  bool on_device = false;  ///< already in device memory: nothing is copied.
  data::BatchWork work;    ///< what was done on the host to make it.
  /// Keeps the host memory of the batch until its copy has ended.
  std::shared_ptr<void> buffer;
};

/// Takes a line of JSON about the samples of a batch; none: nobody.
using SampleLog = std::function<Result<void>(std::string_view line)>;

/// The training loop's source of batches.
///
/// Thread safety: none; the training loop is the only reader.
class BatchSource {
 public:
  BatchSource() = default;
  BatchSource(const BatchSource&) = delete;
  BatchSource& operator=(const BatchSource&) = delete;
  virtual ~BatchSource() = default;

  /// Returns the next batch, blocking until there is one, or nothing at the end of the run.
  [[nodiscard]] virtual Result<std::optional<SourceBatch>> next() = 0;
};

/// Batches that cost the host nothing; they show the best that the GPU can do.
class SyntheticSource final : public BatchSource {
 public:
  enum class Place : std::uint8_t {
    kDevice,      ///< already on the GPU: a step is compute only.
    kHostMemory,  ///< ready in host memory: a step is a copy and compute.
  };

  SyntheticSource(int batch, std::int64_t steps, Place place = Place::kDevice)
      : batch_(batch), steps_left_(steps), place_(place) {}

  [[nodiscard]] Result<std::optional<SourceBatch>> next() override;

 private:
  int batch_;
  std::int64_t steps_left_;
  Place place_;
};

/// Batches of a loader, over several epochs.
class LoaderSource final : public BatchSource {
 public:
  /// Ends after `epochs` epochs, or after `max_steps` batches if given. `loader` must outlive the
  /// source; the source starts its epochs.
  LoaderSource(data::Loader& loader, int epochs, std::optional<std::int64_t> max_steps);

  [[nodiscard]] Result<std::optional<SourceBatch>> next() override;

 private:
  data::Loader& loader_;
  int epochs_;
  int epochs_started_ = 0;
  std::int64_t steps_left_;
};

}  // namespace gpemu::train
