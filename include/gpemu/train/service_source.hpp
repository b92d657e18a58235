// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/data/loader.hpp"
#include "gpemu/service/data_client.hpp"
#include "gpemu/train/batch_source.hpp"

namespace gpemu::train {

/// Batches that remote workers prepare. It puts each into a buffer of this host, from which it is
/// copied to the GPUs.
class ServiceSource final : public BatchSource {
 public:
  /// Ends when the job does, or after `max_steps` batches if given, or after `stop`. The client
  /// must outlive the source.
  ServiceSource(service::DataClient& client, data::HostAllocator allocator,
                std::optional<std::int64_t> max_steps, const std::atomic<bool>& stop,
                SampleLog log = {});

  [[nodiscard]] Result<std::optional<SourceBatch>> next() override;

 private:
  [[nodiscard]] Result<std::shared_ptr<data::HostBuffer>> free_buffer(Bytes bytes);

  service::DataClient& client_;
  data::HostAllocator allocator_;
  std::int64_t steps_left_;
  const std::atomic<bool>& stop_;
  SampleLog log_;
  /// A buffer that only this holds is free.
  std::vector<std::shared_ptr<data::HostBuffer>> buffers_;
};

}  // namespace gpemu::train
