// SPDX-License-Identifier: Apache-2.0
#include "gpemu/data/loader.hpp"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>

#include <gtest/gtest.h>

#include "gpemu/data/convert_dataset.hpp"

#include "test_jpeg.hpp"

namespace gpemu::data {
namespace {

namespace fs = std::filesystem;

constexpr int kCrop = 16;
constexpr std::size_t kSampleFloats = std::size_t{3} * kCrop * kCrop;
constexpr int kImages = 22;

/// A data set of small images in two classes, written once and removed at the end.
class LoaderTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(testing::TempDir()) /
            ("gpemu_loader_" + std::to_string(::getpid()) + "_" +
             testing::UnitTest::GetInstance()->current_test_info()->name());
    for (int i = 0; i < kImages; ++i) {
      const fs::path folder = root_ / (i % 2 == 0 ? "even" : "odd");
      fs::create_directories(folder);
      const auto jpeg = make_test_jpeg({60 + i, 80 - i}, {}, static_cast<std::uint64_t>(i));
      std::ofstream(folder / (std::to_string(100 + i) + ".jpg"), std::ios::binary)
          .write(reinterpret_cast<const char*>(jpeg.data()),
                 static_cast<std::streamsize>(jpeg.size()));
    }
    dataset_ = std::make_unique<Dataset>(Dataset::open(root_).value());
  }
  void TearDown() override { fs::remove_all(root_); }

  [[nodiscard]] const fs::path& path_of(std::size_t rank, std::uint64_t epoch) const {
    return dataset_->files()[shuffled_order(kImages, kOptions.seed, epoch)[rank]];
  }

  [[nodiscard]] Loader create(const LoaderOptions& options) const {
    return Loader::create(*dataset_, options, pageable_allocator(), clock_).value();
  }

  /// Returns the next batch. Requires: there is one.
  static Batch take(Loader& loader) {
    std::optional<Batch> batch = loader.next().value();
    GPEMU_CHECK(batch.has_value(), "the epoch has ended");
    return *std::move(batch);
  }

  /// Returns all floats of an epoch, one batch after the other.
  static std::vector<float> read_epoch(Loader& loader, std::uint64_t epoch) {
    loader.start_epoch(epoch);
    std::vector<float> all;
    while (true) {
      const auto batch = loader.next().value();
      if (!batch) return all;
      all.insert(all.end(), batch->images().begin(), batch->images().end());
    }
  }

  static constexpr LoaderOptions kOptions{
      .batch = 4, .workers = 3, .prefetch_batches = 2, .seed = 11, .crop = kCrop};
  sim::VirtualClock clock_;
  fs::path root_;
  std::unique_ptr<Dataset> dataset_;
};

/// Goes on by 1 ms, 2 ms and so on, each time that it is read.
class CountingClock final : public sim::Clock {
 public:
  [[nodiscard]] TimePoint now() const override {
    now_ += std::chrono::milliseconds(++reads_);
    return now_;
  }
  void wait_until(TimePoint /*deadline*/) override {}
  void wait_for_change(const std::atomic<std::uint32_t>& /*word*/, std::uint32_t /*seen*/,
                       TimePoint /*deadline*/) override {}
  [[nodiscard]] bool runs_by_itself() const override { return false; }

 private:
  mutable TimePoint now_;
  mutable int reads_ = 0;
};

TEST_F(LoaderTest, MeasuresFetchingAndPreprocessingOnItsClock) {
  const CountingClock clock;
  LoaderOptions options = kOptions;
  options.workers = 1;
  options.batch = 2;
  Loader loader = Loader::create(*dataset_, options, pageable_allocator(), clock).value();
  loader.start_epoch(0);
  const Batch batch = take(loader);
  // Each image takes three readings: the start, the end of fetching, the end of preprocessing.
  EXPECT_EQ(batch.work().fetch, std::chrono::milliseconds(2 + 5));
  EXPECT_EQ(batch.work().prep, std::chrono::milliseconds(3 + 6));
}

TEST_F(LoaderTest, YieldsBatchesInOrderWithTheirLabels) {
  LoaderOptions options = kOptions;
  options.drop_last = false;
  Loader loader = create(options);
  EXPECT_EQ(loader.batches_per_epoch(), 6);
  EXPECT_FALSE(loader.next().value().has_value()) << "no epoch was started";
  loader.start_epoch(5);
  const auto order = shuffled_order(kImages, options.seed, 5);
  for (int i = 0; i < 6; ++i) {
    const Batch batch = take(loader);
    EXPECT_EQ(batch.index(), i);
    ASSERT_EQ(batch.size(), i < 5 ? 4 : 2);
    EXPECT_EQ(batch.images().size(), static_cast<std::size_t>(batch.size()) * kSampleFloats);
    ASSERT_EQ(batch.labels().size(), static_cast<std::size_t>(batch.size()));
    Bytes bytes = 0;
    for (std::size_t k = 0; k < batch.labels().size(); ++k) {
      const Sample& sample = dataset_->samples()[order[static_cast<std::size_t>(i) * 4 + k]];
      EXPECT_EQ(batch.labels()[k], sample.label);
      bytes += fs::file_size(dataset_->files()[sample.unit]);
    }
    EXPECT_EQ(batch.work().bytes_read, bytes);
  }
  EXPECT_FALSE(loader.next().value().has_value());
  EXPECT_FALSE(loader.next().value().has_value());
}

TEST_F(LoaderTest, GivesTheSameSamplesWhateverTheWorkersAndBatches) {
  LoaderOptions one_worker = kOptions;
  one_worker.workers = 1;
  one_worker.batch = 2;
  one_worker.prefetch_batches = 1;
  Loader slow = create(one_worker);
  LoaderOptions whole_batches = kOptions;
  whole_batches.drop_last = false;
  Loader fast = create(whole_batches);
  const auto expected = read_epoch(slow, 0);
  EXPECT_EQ(expected.size(), kImages * kSampleFloats);
  EXPECT_EQ(read_epoch(fast, 0), expected);
  EXPECT_NE(read_epoch(fast, 1), expected);
}

TEST_F(LoaderTest, DropsWhatIsLeftOfAnEpochWhenAnotherStarts) {
  Loader loader = create(kOptions);
  const auto expected = read_epoch(loader, 1);
  for (int taken = 0; taken < 4; ++taken) {
    loader.start_epoch(0);
    for (int i = 0; i < taken; ++i) ASSERT_TRUE(loader.next().value().has_value());
    EXPECT_EQ(read_epoch(loader, 1), expected);
  }
}

TEST_F(LoaderTest, CountsCorruptImagesAndFillsTheirPlaceWithZeros) {
  const fs::path victim = path_of(5, 0);
  fs::resize_file(victim, fs::file_size(victim) / 2);
  Loader loader = create(kOptions);
  loader.start_epoch(0);
  EXPECT_EQ(take(loader).work().corrupt, 0);
  const Batch batch = take(loader);
  EXPECT_EQ(batch.work().corrupt, 1);
  const auto sample = batch.images().subspan(kSampleFloats, kSampleFloats);
  EXPECT_TRUE(std::ranges::all_of(sample, [](float value) { return value == 0; }));
  const auto neighbour = batch.images().first(kSampleFloats);
  EXPECT_FALSE(std::ranges::all_of(neighbour, [](float value) { return value == 0; }));
  EXPECT_EQ(read_epoch(loader, 0).size(), std::size_t{20} * kSampleFloats);
  EXPECT_EQ(loader.corrupt_files(), std::vector<std::string>{victim.string()}) << "named once";
}

TEST_F(LoaderTest, StopsAtACorruptImageWhenAsked) {
  const fs::path victim = path_of(5, 0);
  fs::resize_file(victim, 0);
  LoaderOptions options = kOptions;
  options.stop_on_corrupt = true;
  Loader loader = create(options);
  loader.start_epoch(0);
  ASSERT_TRUE(loader.next().has_value());
  const auto batch = loader.next();
  ASSERT_FALSE(batch.has_value());
  EXPECT_EQ(batch.error().code, ErrorCode::kCorruptData);
  EXPECT_EQ(batch.error().message, "corrupt image " + victim.string() + ": the file is empty");
  EXPECT_EQ(take(loader).index(), 2) << "the batch was dropped";
}

TEST_F(LoaderTest, ReportsTheFirstFileThatCannotBeRead) {
  const fs::path first = path_of(9, 0);
  fs::remove(first);
  fs::remove(path_of(11, 0));
  Loader loader = create(kOptions);
  loader.start_epoch(0);
  ASSERT_TRUE(loader.next().has_value());
  ASSERT_TRUE(loader.next().has_value());
  const auto batch = loader.next();
  ASSERT_FALSE(batch.has_value());
  EXPECT_EQ(batch.error().code, ErrorCode::kIo);
  EXPECT_NE(batch.error().message.find(first.string()), std::string::npos);
}

TEST_F(LoaderTest, LetsBatchesOutliveIt) {
  std::vector<Batch> held;
  {
    Loader loader = create(kOptions);
    loader.start_epoch(0);
    while (auto batch = loader.next().value()) held.push_back(*std::move(batch));
  }
  ASSERT_EQ(held.size(), 5U);
  Loader fresh = create(kOptions);
  const auto expected = read_epoch(fresh, 0);
  EXPECT_TRUE(
      std::ranges::equal(held.back().images(), std::span(expected).last(4 * kSampleFloats)));
}

TEST_F(LoaderTest, TakesNoMoreBuffersThanItPrefetchesAndTheReaderHolds) {
  int allocations = 0;
  const HostAllocator counting = [&](Bytes size) {
    ++allocations;
    EXPECT_EQ(size, 4 * kSampleFloats * sizeof(float));
    return pageable_allocator()(size);
  };
  Loader loader = Loader::create(*dataset_, kOptions, counting, clock_).value();
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) read_epoch(loader, epoch);
  EXPECT_EQ(allocations, 3);
  loader.start_epoch(0);
  const auto first = loader.next().value();
  const auto second = loader.next().value();
  EXPECT_EQ(allocations, 4);
}

TEST_F(LoaderTest, PassesOnTheAllocatorsError) {
  const HostAllocator failing = [](Bytes) -> Result<HostBuffer> {
    return fail(ErrorCode::kResourceLimit, "no locked memory");
  };
  const auto loader = Loader::create(*dataset_, kOptions, failing, clock_);
  ASSERT_FALSE(loader.has_value());
  EXPECT_EQ(loader.error().code, ErrorCode::kResourceLimit);
}

/// Returns the signals that a thread of this process holds back, a bit for each.
std::uint64_t signals_held(const fs::path& task) {
  std::ifstream status(task / "status");
  for (std::string word; status >> word;) {
    std::uint64_t held = 0;
    if (word == "SigBlk:" && status >> std::hex >> held) return held;
  }
  return 0;
}

TEST_F(LoaderTest, WorkersGetNoneOfTheProgramsSignals) {
  const Loader loader = create(kOptions);
  int workers = 0;
  for (const auto& task : fs::directory_iterator("/proc/self/task")) {
    if (task.path().filename() == std::to_string(::gettid())) continue;
    ++workers;
    EXPECT_NE(signals_held(task.path()) & (std::uint64_t{1} << (SIGINT - 1)), 0U) << task.path();
  }
  EXPECT_GE(workers, kOptions.workers);
}

TEST_F(LoaderTest, StopsAtAnyTime) {
  static_cast<void>(create(kOptions));  // Before its first epoch.
  for (int taken = 0; taken < 8; ++taken) {
    Loader loader = create(kOptions);
    loader.start_epoch(0);
    int batches = 0;
    while (batches < taken && loader.next().value()) ++batches;
    EXPECT_EQ(batches, std::min(taken, 5));
  }
}

TEST_F(LoaderTest, RefusesOptionsOutOfRange) {
  const auto expect_refused = [&](LoaderOptions options, std::string_view word) {
    const auto loader = Loader::create(*dataset_, options, pageable_allocator(), clock_);
    ASSERT_FALSE(loader.has_value()) << word;
    EXPECT_EQ(loader.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(loader.error().message.find(word), std::string::npos) << loader.error().message;
  };
  expect_refused({.batch = 0}, "batch");
  expect_refused({.workers = 0}, "workers");
  expect_refused({.workers = 5000}, "workers");
  expect_refused({.prefetch_batches = 0}, "prefetch");
  expect_refused({.crop = -1}, "crop");
  expect_refused({.batch = kImages + 1}, "fewer than one batch");
}

/// Returns a disk on which an access takes 9 ms and 100,000 bytes 1 ms, without a page cache: what
/// tests write is in it.
StorageDevice made_up_disk_of(sim::Clock& clock) {
  return {{.name = "disk", .access_s = 9e-3, .bytes_per_s = 1e8}, clock, PageCache::kIgnored};
}

TEST_F(LoaderTest, ReadsTheSameFromEveryFormatInEveryWay) {
  Loader folder = create(kOptions);
  const std::vector<float> expected = read_epoch(folder, 3);
  for (const DataFormat format :
       {DataFormat::kWebDataset, DataFormat::kTfRecord, DataFormat::kGroups, DataFormat::kPages}) {
    const fs::path place = root_ / "stored" / (std::to_string(static_cast<int>(format)) + ".pages");
    ASSERT_TRUE(convert_dataset(
        *dataset_, place, {.format = format, .shuffle = false, .shard_bytes = 10'000, .group = 4}));
    const Dataset stored = Dataset::open(place).value();
    for (const bool async : {false, true}) {
      LoaderOptions options = kOptions;
      options.async = async;
      options.window = 3;
      options.order = ReadOrder::kRandom;
      Loader one = Loader::create(stored, options, pageable_allocator(), clock_).value();
      EXPECT_EQ(read_epoch(one, 3), expected) << stored.format_name() << async;
      // In its natural order, each window is read before it is needed, whatever the batches.
      options.order.reset();
      Loader ahead = Loader::create(stored, options, pageable_allocator(), clock_).value();
      const std::vector<float> quasi_random = read_epoch(ahead, 3);
      EXPECT_EQ(quasi_random.size(), expected.size());
      EXPECT_NE(quasi_random, expected);
      ahead.start_epoch(1);
      static_cast<void>(take(ahead));
      EXPECT_EQ(read_epoch(ahead, 3), quasi_random) << "an epoch that was cut short left nothing";
      options.async = !async;
      options.workers = 1;
      options.batch = 2;
      Loader other = Loader::create(stored, options, pageable_allocator(), clock_).value();
      std::vector<float> smaller_batches = read_epoch(other, 3);
      smaller_batches.resize(quasi_random.size());
      EXPECT_EQ(smaller_batches, quasi_random);
    }
  }
  fs::remove_all(root_ / "stored");
}

TEST_F(LoaderTest, ReadsSingleFilesAsynchronously) {
  Loader sync = create(kOptions);
  LoaderOptions options = kOptions;
  options.async = true;
  options.window = 5;
  Loader async = create(options);
  for (const std::uint64_t epoch : {0, 1}) {
    EXPECT_EQ(read_epoch(async, epoch), read_epoch(sync, epoch));
  }
}

TEST_F(LoaderTest, TakesAsLongAsTheDescribedDevice) {
  sim::VirtualClock clock;
  StorageDevice disk = made_up_disk_of(clock);
  LoaderOptions options = kOptions;
  options.workers = 1;
  options.drop_last = false;
  options.storage = &disk;
  Loader loader = Loader::create(*dataset_, options, pageable_allocator(), clock).value();
  static_cast<void>(read_epoch(loader, 0));
  Duration expected{};
  for (const Sample& sample : dataset_->samples()) {
    expected += from_seconds(
        disk.spec().read_time(static_cast<double>(sample.bytes), /*waiting=*/1).alone_s);
  }
  EXPECT_EQ(clock.now().time_since_epoch(), expected);
  EXPECT_EQ(disk.totals().bytes, dataset_->total_bytes());
}

TEST_F(LoaderTest, ReadsLargePartsOfADescribedDeviceInFewerRequests) {
  ASSERT_TRUE(convert_dataset(*dataset_, root_ / "stored.pages", {.format = DataFormat::kPages}));
  const Dataset stored = Dataset::open(root_ / "stored.pages").value();
  for (const bool async : {false, true}) {
    sim::VirtualClock clock;
    StorageDevice disk = made_up_disk_of(clock);
    LoaderOptions options = kOptions;
    options.async = async;
    options.storage = &disk;
    Loader loader = Loader::create(stored, options, pageable_allocator(), clock).value();
    static_cast<void>(read_epoch(loader, 0));
    EXPECT_EQ(disk.totals().reads, 1) << async;
  }
  fs::remove(root_ / "stored.pages");
}

TEST_F(LoaderTest, NamesAFileThatWentAwayWhileReadingAhead) {
  ASSERT_TRUE(convert_dataset(*dataset_, root_ / "stored", {.format = DataFormat::kWebDataset}));
  const Dataset stored = Dataset::open(root_ / "stored").value();
  fs::remove_all(root_ / "stored");
  for (const bool async : {false, true}) {
    LoaderOptions options = kOptions;
    options.async = async;
    Loader loader = Loader::create(stored, options, pageable_allocator(), clock_).value();
    loader.start_epoch(0);
    const auto batch = loader.next();
    ASSERT_FALSE(batch);
    EXPECT_EQ(batch.error().code, ErrorCode::kIo);
    EXPECT_NE(batch.error().message.find("shard-000000.tar"), std::string::npos);
  }
}

TEST_F(LoaderTest, ReadsNothingMoreOnceItIsGone) {
  ASSERT_TRUE(
      convert_dataset(*dataset_, root_ / "stored", {.format = DataFormat::kGroups, .group = 4}));
  for (const bool async : {false, true}) {
    auto stored = std::make_unique<Dataset>(Dataset::open(root_ / "stored").value());
    LoaderOptions options = kOptions;
    options.async = async;
    options.window = 2;
    std::optional<Loader> loader =
        Loader::create(*stored, options, pageable_allocator(), clock_).value();
    loader->start_epoch(0);
    const Batch batch = take(*loader);
    loader.reset();
    stored.reset();
    EXPECT_EQ(batch.size(), 4) << "a batch may outlive both";
  }
  fs::remove_all(root_ / "stored");
}

TEST_F(LoaderTest, CountsImagesThatWereCutOffAsCorrupt) {
  ASSERT_TRUE(convert_dataset(*dataset_, root_ / "stored",
                              {.format = DataFormat::kTfRecord, .shuffle = false}));
  const Dataset stored = Dataset::open(root_ / "stored").value();
  fs::resize_file(stored.files().front(), stored.samples()[10].offset + 1);
  LoaderOptions options = kOptions;
  options.drop_last = false;
  Loader loader = Loader::create(stored, options, pageable_allocator(), clock_).value();
  loader.start_epoch(0);
  int corrupt = 0;
  while (const auto batch = loader.next().value()) corrupt += batch->work().corrupt;
  EXPECT_EQ(corrupt, kImages - 10);
  EXPECT_NE(loader.corrupt_files().front().find("shard-000000.tfrecord, byte "), std::string::npos);
  fs::remove_all(root_ / "stored");
}

}  // namespace
}  // namespace gpemu::data
