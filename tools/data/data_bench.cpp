// SPDX-License-Identifier: Apache-2.0
#include "data/data_bench.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <thread>
#include <utility>

#include "gpemu/base/mutex.hpp"
#include "gpemu/base/thread.hpp"
#include "gpemu/data/image.hpp"
#include "gpemu/data/loader.hpp"
#include "gpemu/data/sample_reader.hpp"

namespace gpemu::tools {
namespace {

/// Runs `epoch`, which fills in the counts, and adds the times.
template <typename Epoch>
Result<DataBenchEpoch> measure(const sim::Clock& clock, const std::function<Duration()>& cpu_time,
                               const Epoch& epoch) {
  const TimePoint start = clock.now();
  const Duration cpu_start = cpu_time();
  GPEMU_ASSIGN(DataBenchEpoch result, epoch());
  result.elapsed = clock.now() - start;
  result.cpu = cpu_time() - cpu_start;
  return result;
}

Result<DataBenchEpoch> load_epoch(data::Loader& loader, std::uint64_t number,
                                  const std::atomic<bool>& stop) {
  DataBenchEpoch result;
  loader.start_epoch(number);
  while (!stop) {
    GPEMU_ASSIGN(const std::optional<data::Batch> batch, loader.next());
    if (!batch) return result;
    result.images += batch->size();
    result.corrupt += batch->work().corrupt;
  }
  return fail(ErrorCode::kInterrupted, "stopped");
}

/// Decodes every file once, on as many threads as there are workers.
class DecodeEpoch {
 public:
  DecodeEpoch(const data::Dataset& dataset, int workers, data::StorageDevice* storage,
              const std::atomic<bool>& stop)
      : dataset_(dataset), workers_(workers), storage_(storage), stop_(stop) {}

  Result<DataBenchEpoch> run() GPEMU_EXCLUDES(mutex_) {
    std::vector<std::thread> threads;
    for (int i = 0; i < workers_; ++i) {
      threads.push_back(start_thread("gpemu-decode", [this] { work(); }));
    }
    const bool all = std::ranges::all_of(threads, &std::thread::joinable);
    for (std::thread& thread : threads) {
      if (thread.joinable()) thread.join();
    }
    if (!all) {
      return fail(ErrorCode::kResourceLimit, "cannot start {} worker threads", workers_);
    }
    const Lock lock(mutex_);
    if (error_) return std::unexpected(*std::move(error_));
    return DataBenchEpoch{.images = static_cast<std::int64_t>(dataset_.samples().size())};
  }

 private:
  void work() {
    data::SampleReader reader(dataset_, storage_);
    data::ImageTransform transform;
    const std::size_t count = dataset_.samples().size();
    for (std::size_t i = next_++; i < count; i = next_++) {
      const Result<void> result = decode(i, reader, transform);
      if (result) continue;
      const Lock lock(mutex_);
      if (!error_) error_ = result.error();
      next_ = count;
    }
  }

  Result<void> decode(std::size_t sample, data::SampleReader& reader,
                      data::ImageTransform& transform) const {
    if (stop_) return fail(ErrorCode::kInterrupted, "stopped");
    GPEMU_TRY(reader.read(sample));
    const auto decoded = [&]() -> Result<data::ImageSize> {
      GPEMU_ASSIGN(const auto image, reader.image());
      return transform.decode_only(image);
    }();
    if (!decoded) {
      return fail(ErrorCode::kCorruptData, "corrupt image {}: {}", dataset_.sample_name(sample),
                  decoded.error().message);
    }
    return {};
  }

  const data::Dataset& dataset_;
  const int workers_;
  data::StorageDevice* storage_;
  const std::atomic<bool>& stop_;
  std::atomic<std::size_t> next_{0};
  Mutex mutex_;
  std::optional<Error> error_ GPEMU_GUARDED_BY(mutex_);
};

}  // namespace

Result<std::vector<DataBenchEpoch>> run_data_bench(const data::Dataset& dataset,
                                                   const DataBenchOptions& options,
                                                   data::StorageDevice* storage,
                                                   const sim::Clock& clock,
                                                   const std::function<Duration()>& cpu_time,
                                                   const std::atomic<bool>& stop) {
  std::optional<data::Loader> loader;
  if (!options.decode_only) {
    data::LoaderOptions loader_options{.batch = options.batch,
                                       .workers = options.workers,
                                       .seed = options.seed,
                                       .drop_last = false,
                                       .decode = !options.no_decode};
    set_reading(loader_options, options.read, dataset, storage);
    GPEMU_ASSIGN(loader,
                 data::Loader::create(dataset, loader_options, data::pageable_allocator(), clock));
  }
  std::vector<DataBenchEpoch> epochs;
  for (int i = 0; i < options.epochs; ++i) {
    if (options.cold) GPEMU_TRY(dataset.drop_page_cache(&stop));
    if (!options.cold && i == 0) GPEMU_TRY(dataset.fill_page_cache(&stop));
    GPEMU_ASSIGN(const DataBenchEpoch epoch, measure(clock, cpu_time, [&] {
                   return loader ? load_epoch(*loader, static_cast<std::uint64_t>(i), stop)
                                 : DecodeEpoch(dataset, options.workers, storage, stop).run();
                 }));
    epochs.push_back(epoch);
  }
  return epochs;
}

}  // namespace gpemu::tools
