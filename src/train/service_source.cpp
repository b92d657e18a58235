// SPDX-License-Identifier: Apache-2.0
#include "gpemu/train/service_source.hpp"

#include <cstring>
#include <limits>
#include <utility>

#include <fmt/ranges.h>

namespace gpemu::train {

ServiceSource::ServiceSource(service::DataClient& client, data::HostAllocator allocator,
                             std::optional<std::int64_t> max_steps, const std::atomic<bool>& stop,
                             SampleLog log)
    : client_(client),
      allocator_(std::move(allocator)),
      steps_left_(max_steps.value_or(std::numeric_limits<std::int64_t>::max())),
      stop_(stop),
      log_(std::move(log)) {}

Result<std::shared_ptr<data::HostBuffer>> ServiceSource::free_buffer(Bytes bytes) {
  for (const auto& buffer : buffers_) {
    if (buffer.use_count() == 1 && buffer->size >= bytes) return buffer;
  }
  GPEMU_ASSIGN(data::HostBuffer made, allocator_(bytes));
  return buffers_.emplace_back(std::make_shared<data::HostBuffer>(std::move(made)));
}

Result<std::optional<SourceBatch>> ServiceSource::next() {
  if (steps_left_ <= 0) return std::nullopt;
  GPEMU_ASSIGN(std::optional<service::DataClient::Batch> received, client_.next(stop_));
  if (!received) return std::nullopt;
  --steps_left_;
  if (log_) {
    GPEMU_TRY(log_(fmt::format(R"({{"event":"received","epoch":{},"samples":[{}]}})",
                               received->epoch, fmt::join(received->samples, ","))));
  }
  SourceBatch batch;
  batch.epoch = static_cast<int>(received->epoch);
  batch.samples = static_cast<int>(received->samples.size());
  batch.work = received->work;
  GPEMU_ASSIGN(const auto buffer, free_buffer(received->pixels.size()));
  std::memcpy(buffer->data, received->pixels.data(), received->pixels.size());
  batch.buffer = buffer;
  return batch;
}

}  // namespace gpemu::train
