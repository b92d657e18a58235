// SPDX-License-Identifier: Apache-2.0
#include "written_memory.hpp"

#include <array>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

namespace gpemu::kernels {
namespace {

gpemu_cuda_launch launch_of(std::uint32_t blocks, std::uint32_t threads, void** arguments) {
  gpemu_cuda_launch launch{};
  launch.grid[0] = blocks;
  launch.block[0] = threads;
  launch.grid[1] = launch.grid[2] = launch.block[1] = launch.block[2] = 1;
  launch.arguments = arguments;
  return launch;
}

TEST(WrittenMemory, IsOneElementIfAllThreadsWriteTheSame) {
  std::uint64_t address = 4096;
  std::int32_t count = 1000;
  std::array<void*, 2> arguments = {&address, &count};
  PtxFacts facts;
  facts.written.push_back({.argument = 0, .bytes_of_thread = 4, .fixed = true});
  facts.integers.push_back({.argument = 1});
  facts.wide = {true, false};
  KernelWork work;
  describe_text(facts, launch_of(1, 128, arguments.data()), &work);
  for (const KernelWork::Range& range : work.ranges) EXPECT_EQ(range.bytes, 4U);
  EXPECT_FALSE(work.ranges.empty());
}

TEST(WrittenMemory, IsNumbasArrayAsItsSizesAndStridesSay) {
  // Owner, parent, elements, bytes of one, address, two sizes, two strides.
  std::array<std::uint64_t, 9> words = {0, 0, 6, 4, 4096, 3, 2, 40, 4};
  std::array<void*, 9> arguments{};
  for (std::size_t i = 0; i < words.size(); ++i) arguments[i] = &words[i];
  PtxFacts facts;
  facts.written.push_back({.argument = 4, .bytes_of_thread = 4, .fixed = false});
  facts.wide.assign(words.size(), true);
  KernelWork work;
  describe_text(facts, launch_of(1, 256, arguments.data()), &work);
  EXPECT_TRUE(work.ranges.empty());
  ASSERT_EQ(work.scattered.size(), 1U);
  EXPECT_EQ(work.scattered[0].address, 4096U);
  EXPECT_EQ(work.scattered[0].span(), 2U * 40 + 8);
  words[7] = 8;  // Without gaps.
  KernelWork dense;
  describe_text(facts, launch_of(1, 256, arguments.data()), &dense);
  ASSERT_EQ(dense.ranges.size(), 1U);
  EXPECT_EQ(dense.ranges[0].bytes, 24U);
}

}  // namespace
}  // namespace gpemu::kernels
