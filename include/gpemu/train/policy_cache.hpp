// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "gpemu/base/mutex.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/data/dataset.hpp"
#include "gpemu/data/loader.hpp"
#include "gpemu/pipeline/cache.hpp"

namespace gpemu::train {

/// Makes the policy of a cache of files that have these sizes; they outlive it.
using MakeCachePolicy =
    std::function<std::unique_ptr<pipeline::Cache>(std::span<const std::uint32_t> sizes)>;

/// Samples of a real data set in the process's memory: a policy of described hosts says which.
///
/// Thread safety: any thread.
class PolicyCache final : public data::SampleCache {
 public:
  PolicyCache(const data::Dataset& dataset, const MakeCachePolicy& make);

  [[nodiscard]] Bytes find(std::uint32_t sample) override GPEMU_EXCLUDES(mutex_);
  void offer(std::uint32_t sample, std::span<const std::byte> bytes) override
      GPEMU_EXCLUDES(mutex_);

  /// Returns how many samples it was asked for, and had.
  [[nodiscard]] std::int64_t reads() GPEMU_EXCLUDES(mutex_);
  [[nodiscard]] std::int64_t hits() GPEMU_EXCLUDES(mutex_);

 private:
  void drop_what_left() GPEMU_REQUIRES(mutex_);

  const std::vector<std::uint32_t> sizes_;
  Mutex mutex_;
  std::unique_ptr<pipeline::Cache> policy_ GPEMU_GUARDED_BY(mutex_);
  std::unordered_map<std::uint32_t, Bytes> samples_ GPEMU_GUARDED_BY(mutex_);
  gpemu::Bytes stored_ GPEMU_GUARDED_BY(mutex_) = 0;
  std::int64_t reads_ GPEMU_GUARDED_BY(mutex_) = 0;
  std::int64_t hits_ GPEMU_GUARDED_BY(mutex_) = 0;
};

}  // namespace gpemu::train
