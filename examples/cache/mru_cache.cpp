// SPDX-License-Identifier: Apache-2.0
// A cache policy of your own, beside those of gpemu: docs/how-to/try-your-own-cache.md.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <unordered_set>
#include <vector>

#include "gpemu/pipeline/input_pipeline.hpp"

namespace {

using gpemu::Bytes;
using gpemu::pipeline::FileId;
using gpemu::pipeline::PipelineSetup;

/// When a file needs room, the file that was used last leaves: it is the one that an epoch in
/// random order needs again latest.
class MruCache final : public gpemu::pipeline::Cache {
 public:
  MruCache(Bytes capacity, std::span<const std::uint32_t> sizes)
      : capacity_(capacity), sizes_(sizes) {}

  bool read(FileId file) override {
    if (held_.contains(file)) {
      std::erase(order_, file);  // Slow, but clear.
      order_.push_back(file);
      return true;
    }
    if (sizes_[file] > capacity_) return false;
    while (used_ + sizes_[file] > capacity_) {
      used_ -= sizes_[order_.back()];
      held_.erase(order_.back());
      order_.pop_back();
    }
    order_.push_back(file);
    held_.insert(file);
    used_ += sizes_[file];
    return false;
  }
  [[nodiscard]] bool holds(FileId file) const override { return held_.contains(file); }
  [[nodiscard]] Bytes used() const override { return used_; }

 private:
  Bytes capacity_;
  std::span<const std::uint32_t> sizes_;
  Bytes used_ = 0;
  std::vector<FileId> order_;  // The file that was used last is at the end.
  std::unordered_set<FileId> held_;
};

/// Eight workers that prepare 125 images a second each read 4,000 files of 100 kB from a hard disk.
PipelineSetup setup() {
  PipelineSetup setup;
  setup.cpu = {.model = "any", .cores = 8, .threads = 8};
  setup.loader = {.name = "any", .image_s = 0.008};
  setup.storage = {.name = "disk", .access_s = 0.008, .bytes_per_s = 1e8};
  setup.file_bytes.assign(4000, 100'000);
  setup.workers = 8;
  setup.step_s = 0.05;
  setup.epochs = 4;
  setup.cache.capacity = 1600 * Bytes{102'400};  // 40 % of the files, in pages.
  return setup;
}

double last_epoch(const char* name, const PipelineSetup& setup) {
  const auto last = gpemu::pipeline::simulate(setup).back();
  std::printf("%-12s %5.1f s, %4.1f %% of the files from the cache\n", name, last.epoch_s,
              100.0 * static_cast<double>(last.cache_reads) / static_cast<double>(last.samples));
  return last.epoch_s;
}

}  // namespace

int main() {
  PipelineSetup page = setup();
  PipelineSetup minio = setup();
  minio.cache.policy = gpemu::pipeline::CachePolicy::kMinio;
  PipelineSetup own = setup();
  own.cache.make = [](Bytes capacity, std::span<const std::uint32_t> sizes) {
    return std::make_unique<MruCache>(capacity, sizes);
  };
  const double page_s = last_epoch("page cache", page);
  last_epoch("MinIO", minio);
  return last_epoch("your own", own) < page_s ? 0 : 1;
}
