// SPDX-License-Identifier: Apache-2.0
#include "gpemu/data/make_dataset.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "gpemu/base/mutex.hpp"
#include "gpemu/base/thread.hpp"
#include "gpemu/data/dataset.hpp"
#include "gpemu/data/output_folder.hpp"
#include "gpemu/sim/random.hpp"

#include "output_file.hpp"
#include "synthetic_image.hpp"

namespace gpemu::data {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxImages = 10'000'000;
constexpr double kMaxKilobytes = 100'000;

/// Returns the file size that `percent` of the files do not exceed.
Bytes size_at(const std::vector<SizePercentile>& sizes, double percent) {
  if (sizes.size() == 1) return static_cast<Bytes>(sizes.front().kilobytes * 1000);
  const auto above = std::ranges::lower_bound(sizes, percent, {}, &SizePercentile::percent);
  const auto last = std::clamp(above, sizes.begin() + 1, sizes.end() - 1);
  const SizePercentile& high = *last;
  const SizePercentile& low = *(last - 1);
  const double share = (percent - low.percent) / (high.percent - low.percent);
  const double kilobytes = low.kilobytes * std::pow(high.kilobytes / low.kilobytes, share);
  return static_cast<Bytes>(std::max(1.0, kilobytes * 1000));
}

Result<void> check_options(const MakeDatasetOptions& options) {
  if (options.images < 1 || options.images > kMaxImages) {
    return fail(ErrorCode::kInvalidArgument, "the number of images is {}; it must be 1 to {}",
                options.images, kMaxImages);
  }
  if (options.classes < 1 || options.classes > options.images) {
    return fail(
        ErrorCode::kInvalidArgument,
        "the number of classes is {}; it must be 1 to the number of images, {}: give --classes",
        options.classes, options.images);
  }
  if (options.threads < 1) {
    return fail(ErrorCode::kInvalidArgument, "the number of threads is {}; it must be at least 1",
                options.threads);
  }
  if (options.sizes.empty()) {
    return fail(ErrorCode::kInvalidArgument, "no size percentile is given");
  }
  SizePercentile previous{-1, 0};
  for (const SizePercentile& size : options.sizes) {
    // Written so that what is not a number is refused as well.
    const bool percent_fits = size.percent > previous.percent && size.percent <= 100;
    const bool size_fits = size.kilobytes > 0 && size.kilobytes >= previous.kilobytes &&
                           size.kilobytes <= kMaxKilobytes;
    if (!percent_fits || !size_fits) {
      return fail(ErrorCode::kInvalidArgument,
                  "size percentile {}:{} is out of range or out of order; percentages must ascend "
                  "within 0 to 100, and sizes from above 0 to {} KB",
                  size.percent, size.kilobytes, kMaxKilobytes);
    }
    previous = size;
  }
  return {};
}

/// The images that are being written, by several threads.
class Production {
 public:
  Production(const fs::path& folder, const MakeDatasetOptions& options)
      : folder_(folder),
        options_(options),
        ranks_(shuffled_order(static_cast<std::size_t>(options.images), options.seed, 0)) {}

  Result<void> run() GPEMU_EXCLUDES(mutex_) {
    for (int i = 0; i < options_.classes; ++i) {
      std::error_code error;
      fs::create_directory(folder_ / class_name(i), error);
      if (error) return fail(ErrorCode::kIo, "cannot make a class folder: {}", error.message());
    }
    // If the system starts fewer threads, each of them writes more images.
    std::vector<std::thread> threads;
    for (int i = 1; i < options_.threads; ++i) {
      threads.push_back(start_thread("gpemu-images", [this] { work(); }));
      if (!threads.back().joinable()) break;
    }
    work();
    for (std::thread& thread : threads) {
      if (thread.joinable()) thread.join();
    }
    const Lock lock(mutex_);
    if (error_) return std::unexpected(*std::move(error_));
    return {};
  }

 private:
  static std::string class_name(int label) { return fmt::format("class_{:03}", label); }

  void work() {
    ImageSynthesizer synthesizer;
    for (int i = next_++; i < options_.images && !failed_; i = next_++) {
      Result<void> result = make_image(i, synthesizer);
      const Lock lock(mutex_);
      if (result) {
        if (options_.progress) options_.progress(++done_);
      } else {
        failed_ = true;
        if (!error_) error_ = std::move(result).error();
      }
    }
  }

  // Each image takes another percentile of the sizes, so that even few images have all of them.
  Result<void> make_image(int index, ImageSynthesizer& synthesizer) const {
    if (options_.stop != nullptr && options_.stop->load(std::memory_order_relaxed)) {
      return fail(ErrorCode::kInterrupted, "stopped; no data set was made");
    }
    sim::Rng rng(options_.seed, 1, index);
    const double percent = (ranks_[static_cast<std::size_t>(index)] + 0.5) * 100 / options_.images;
    const auto jpeg = synthesizer.make(size_at(options_.sizes, percent), rng);
    const fs::path name = fmt::format("image_{:07}.jpg", index);
    GPEMU_ASSIGN(OutputFile file,
                 OutputFile::create(folder_ / class_name(index % options_.classes) / name));
    GPEMU_TRY(file.append(jpeg));
    return file.close();
  }

  const fs::path& folder_;
  const MakeDatasetOptions& options_;
  const std::vector<std::uint32_t> ranks_;
  std::atomic<int> next_{0};
  std::atomic<bool> failed_{false};
  Mutex mutex_;
  int done_ GPEMU_GUARDED_BY(mutex_) = 0;
  std::optional<Error> error_ GPEMU_GUARDED_BY(mutex_);
};

}  // namespace

std::vector<SizePercentile> default_size_percentiles() {
  return {{10, 23}, {25, 61}, {50, 108}, {75, 148}, {90, 187}, {95, 215}, {99, 375}};
}

Result<void> make_dataset(const fs::path& folder, const MakeDatasetOptions& options) {
  GPEMU_TRY(check_options(options));
  GPEMU_ASSIGN(OutputFolder output, OutputFolder::create(folder));
  GPEMU_TRY(Production(output.path(), options).run());
  return output.commit();
}

}  // namespace gpemu::data
