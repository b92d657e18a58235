// SPDX-License-Identifier: Apache-2.0
#include "data/data_bench.hpp"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace gpemu::tools {
namespace {

TEST(DataBench, StopsBeforeItReadsTheFiles) {
  const std::filesystem::path root =
      std::filesystem::path(testing::TempDir()) / fmt::format("gpemu_bench_{}", ::getpid());
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
