// SPDX-License-Identifier: Apache-2.0
#include "data/data_bench.hpp"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gpemu/data/make_dataset.hpp"

namespace gpemu::tools {
namespace {

const std::filesystem::path root =
    std::filesystem::path(testing::TempDir()) / fmt::format("gpemu_bench_{}", ::getpid());

TEST(DataBench, ThreadsReadEachImageOnce) {
  ASSERT_TRUE(data::make_dataset(root, {.images = 10, .classes = 2, .sizes = {{50, 2}, {90, 3}}}));
  const auto dataset = data::Dataset::open(root);
  ASSERT_TRUE(dataset) << dataset.error().message;
  const sim::VirtualClock clock;
  const std::atomic<bool> stop = false;
  for (const bool decode_only : {false, true}) {
    const auto epochs = run_data_bench(
        *dataset, {.workers = 3, .epochs = 2, .batch = 4, .decode_only = decode_only}, nullptr,
        clock, [] { return Duration(); }, stop);
    ASSERT_TRUE(epochs) << epochs.error().message;
    ASSERT_EQ(epochs->size(), 2);
    for (const DataBenchEpoch& epoch : *epochs) {
      EXPECT_EQ(epoch.images, 10);
      EXPECT_EQ(epoch.corrupt, 0);
    }
  }
  std::filesystem::remove_all(root);
}

TEST(DataBench, StopsBeforeItReadsTheFiles) {
  const std::filesystem::path image = root / "cat" / "a.jpg";
  std::filesystem::create_directories(image.parent_path());
  std::ofstream(image) << "x";
  const auto dataset = data::Dataset::open(root);
  ASSERT_TRUE(dataset) << dataset.error().message;
  std::filesystem::remove_all(root);  // Reading it would be an error of another kind.
  const sim::VirtualClock clock;
  const std::atomic<bool> stop = true;
  EXPECT_EQ(run_data_bench(
                *dataset, {}, nullptr, clock, [] { return Duration(); }, stop)
                .error()
                .code,
            ErrorCode::kInterrupted);
}

}  // namespace
}  // namespace gpemu::tools
