// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <optional>
#include <unistd.h>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gpemu/data/loader.hpp"
#include "gpemu/data/make_dataset.hpp"
#include "gpemu/sim/clock.hpp"
#include "gpemu/train/batch_source.hpp"

namespace gpemu::train {
namespace {

constexpr int kImages = 10;
constexpr int kBatch = 4;

/// A loader with two threads that read small images.
class LoaderSourceTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(
        data::make_dataset(root_, {.images = kImages, .classes = 2, .sizes = {{50, 2}, {90, 3}}}));
    dataset_ = data::Dataset::open(root_).value();
    loader_ = data::Loader::create(*dataset_,
                                   {.batch = kBatch, .workers = 2, .crop = 16, .drop_last = false},
                                   data::pageable_allocator(), clock_)
                  .value();
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  /// Returns epoch and size of each batch.
  static std::vector<std::pair<int, int>> read(LoaderSource source) {
    std::vector<std::pair<int, int>> batches;
    while (const std::optional<SourceBatch> batch = source.next().value()) {
      batches.emplace_back(batch->epoch, batch->samples);
    }
    return batches;
  }

  std::filesystem::path root_ =
      std::filesystem::path(testing::TempDir()) / fmt::format("gpemu_loader_source_{}", ::getpid());
  sim::VirtualClock clock_;
  std::optional<data::Dataset> dataset_;
  std::optional<data::Loader> loader_;
};

TEST_F(LoaderSourceTest, ReadsAllEpochs) {
  const std::vector<std::pair<int, int>> expected = {{0, 4}, {0, 4}, {0, 2},
                                                     {1, 4}, {1, 4}, {1, 2}};
  EXPECT_EQ(read(LoaderSource(*loader_, 2, {})), expected);
}

TEST_F(LoaderSourceTest, EndsAfterTheMostSteps) {
  const std::vector<std::pair<int, int>> expected = {{0, 4}, {0, 4}};
  EXPECT_EQ(read(LoaderSource(*loader_, 2, 2)), expected);
}

}  // namespace
}  // namespace gpemu::train
