// SPDX-License-Identifier: Apache-2.0
#include "gpemu/train/nodes_source.hpp"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gpemu/data/make_dataset.hpp"
#include "gpemu/sim/clock.hpp"

namespace gpemu::train {
namespace {

constexpr int kNodeImages = 10;
constexpr int kNodeBatch = 4;

/// A group of one node, with a cache for all images. Several are tested by
/// tests/integration/nodes_test.py.
class NodesSourceTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(data::make_dataset(
        root_, {.images = kNodeImages, .classes = 2, .sizes = {{50, 2}, {90, 3}}}));
    dataset_ = data::Dataset::open(root_).value();
    std::vector<std::uint32_t> sizes;
    for (std::size_t i = 0; i < kNodeImages; ++i) {
      sizes.push_back(static_cast<std::uint32_t>(dataset_->extent(i).bytes));
    }
    cache_ = std::make_unique<peers::SharedCache>(
        peers::SharedCache::Options{.capacity = dataset_->total_bytes()}, sizes,
        [this](std::uint32_t sample) { return data::read_sample(*dataset_, sample, nullptr); });
    loader_ = data::Loader::create(*dataset_,
                                   {.batch = kNodeBatch,
                                    .workers = 2,
                                    .crop = 16,
                                    .drop_last = false,
                                    .source = cache_.get()},
                                   data::pageable_allocator(), clock_)
                  .value();
    group_ = peers::NodeGroup::join({}, {.all = [this] { return cache_->cached(); }}, clock_, stop_)
                 .value();
  }
  void TearDown() override {
    loader_.reset();
    std::filesystem::remove_all(root_);
  }

  NodesSource source(NodesSource::Options options) {
    options.batch = kNodeBatch;
    return {*loader_, *dataset_, cache_.get(), *group_, std::move(options)};
  }

  std::filesystem::path root_ =
      std::filesystem::path(testing::TempDir()) / fmt::format("gpemu_nodes_source_{}", ::getpid());
  std::atomic<bool> stop_ = false;
  sim::VirtualClock clock_;
  std::optional<data::Dataset> dataset_;
  std::unique_ptr<peers::SharedCache> cache_;
  std::optional<data::Loader> loader_;
  std::unique_ptr<peers::NodeGroup> group_;
};

TEST_F(NodesSourceTest, ReadsEachSampleOfAnEpochOnce) {
  std::vector<std::string> lines;
  NodesSource nodes = source({.epochs = 2, .log = [&](std::string_view line) -> Result<void> {
                                lines.emplace_back(line);
                                return {};
                              }});
  std::vector<std::pair<int, int>> batches;
  while (const std::optional<SourceBatch> batch = nodes.next().value()) {
    batches.emplace_back(batch->epoch, batch->samples);
  }
  const std::vector<std::pair<int, int>> expected = {{0, 4}, {0, 4}, {0, 2},
                                                     {1, 4}, {1, 4}, {1, 2}};
  EXPECT_EQ(batches, expected);
  ASSERT_EQ(nodes.epochs().size(), 2);
  EXPECT_EQ(nodes.epochs()[0].samples, kNodeImages);
  EXPECT_EQ(nodes.epochs()[0].reads.storage, kNodeImages);
  EXPECT_EQ(nodes.epochs()[1].reads.here, kNodeImages);
  EXPECT_EQ(nodes.epochs()[1].reads.storage, 0);
  ASSERT_EQ(lines.size(), 12);
  EXPECT_EQ(lines[11], R"({"event":"trained","epoch":1,"step":5,"view":0,"members":[0]})");
}

TEST_F(NodesSourceTest, EndsAfterTheMostSteps) {
  NodesSource nodes = source({.epochs = 2, .max_steps = 4});
  int steps = 0;
  while (nodes.next().value()) ++steps;
  EXPECT_EQ(steps, 4);
}

TEST_F(NodesSourceTest, EndsWhenItsLogCannotBeWritten) {
  NodesSource nodes = source(
      {.log = [](std::string_view) -> Result<void> { return fail(ErrorCode::kIo, "disk full"); }});
  EXPECT_EQ(nodes.next().error().message, "disk full");
}

TEST_F(NodesSourceTest, EndsWhenTheRunIsStopped) {
  NodesSource nodes = source({});
  stop_ = true;
  EXPECT_FALSE(nodes.next().value());
}

}  // namespace
}  // namespace gpemu::train
