// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/base/mutex.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/data/sample_source.hpp"
#include "gpemu/pipeline/cache.hpp"
#include "gpemu/pipeline/locality.hpp"

namespace gpemu::peers {

/// The cache of one node, which really holds the bytes of samples. Which ones decides the same
/// pipeline::Cache as on described hosts; a file there is a sample here. If nodes share their
/// caches, a sample that another node holds is read from that node, and not cached again.
///
/// Thread safety: any thread.
class SharedCache final : public data::SampleSource {
 public:
  struct Options {
    pipeline::CachePolicy policy = pipeline::CachePolicy::kMinio;
    Bytes capacity = 0;
    std::uint64_t seed = 0;
    int rank = 0;  ///< of this node.
  };
  /// Where samples came from.
  struct Reads {
    std::uint64_t here = 0;
    std::uint64_t peers = 0;
    std::uint64_t storage = 0;
  };
  using ReadStorage = std::function<Result<data::SampleBytes>(std::uint32_t sample)>;
  /// Returns no memory if the node does not hold the sample.
  using AskPeer = std::function<Result<data::SampleBytes>(int node, pipeline::FileId sample)>;

  /// `sizes` has the bytes of each sample.
  SharedCache(const Options& options, std::vector<std::uint32_t> sizes, ReadStorage read_storage);

  /// From now on, asks the nodes that hold a sample for it. Requires: nothing has been read.
  void share(AskPeer ask) { ask_ = std::move(ask); }

  [[nodiscard]] Result<data::SampleBytes> read(std::uint32_t sample) override
      GPEMU_EXCLUDES(mutex_);
  /// Returns a sample that it holds; else no memory. Does not count as a use.
  [[nodiscard]] data::SampleBytes find(pipeline::FileId sample) GPEMU_EXCLUDES(mutex_);

  /// Returns the samples that it has cached since the last call of one of these functions; all that
  /// it holds.
  [[nodiscard]] std::vector<pipeline::FileId> take_news() GPEMU_EXCLUDES(mutex_);
  [[nodiscard]] std::vector<pipeline::FileId> cached() GPEMU_EXCLUDES(mutex_);

  using Holdings = std::vector<std::pair<int, std::vector<pipeline::FileId>>>;
  /// Notes what nodes hold, in this order; with `all`, what was noted before counts no more.
  void note(const Holdings& holdings, bool all) GPEMU_EXCLUDES(mutex_);
  /// Returns the node that holds each sample.
  [[nodiscard]] std::vector<pipeline::Owner> owners() GPEMU_EXCLUDES(mutex_);

  [[nodiscard]] Reads reads() GPEMU_EXCLUDES(mutex_);
  [[nodiscard]] Bytes capacity() const { return options_.capacity; }
  /// Returns the bytes that it holds in memory.
  [[nodiscard]] Bytes bytes() GPEMU_EXCLUDES(mutex_);

 private:
  void keep(std::uint32_t sample, const data::SampleBytes& bytes) GPEMU_REQUIRES(mutex_);

  const Options options_;
  const std::vector<std::uint32_t> sizes_;
  const ReadStorage read_storage_;
  AskPeer ask_;

  Mutex mutex_;
  std::unique_ptr<pipeline::Cache> policy_ GPEMU_GUARDED_BY(mutex_);
  std::unordered_map<std::uint32_t, data::SampleBytes> held_ GPEMU_GUARDED_BY(mutex_);
  Bytes bytes_ GPEMU_GUARDED_BY(mutex_) = 0;
  std::vector<pipeline::FileId> news_ GPEMU_GUARDED_BY(mutex_);
  std::vector<pipeline::Owner> owners_ GPEMU_GUARDED_BY(mutex_);
  Reads reads_ GPEMU_GUARDED_BY(mutex_);
};

}  // namespace gpemu::peers
