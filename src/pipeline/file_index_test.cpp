// SPDX-License-Identifier: Apache-2.0
#include "file_index.hpp"

#include <cstdint>
#include <map>

#include <gtest/gtest.h>

#include "gpemu/sim/random.hpp"

namespace gpemu::pipeline {
namespace {

TEST(FileIndexTest, IsAsAMap) {
  FileIndex index;
  std::map<std::uint32_t, std::uint32_t> plain;
  sim::Rng random(3);
  for (int i = 0; i < 200'000; ++i) {
    // Small numbers collide with each other, and large ones wrap around.
    const auto file =
        static_cast<std::uint32_t>(random.below(2) == 0 ? random.below(3000) : ~random.below(3000));
    const auto found = plain.find(file);
    ASSERT_EQ(index.find(file), found == plain.end() ? FileIndex::kNone : found->second) << i;
    if (found != plain.end() && random.below(2) == 0) {
      plain.erase(found);
      index.erase(file);
    } else {
      plain[file] = static_cast<std::uint32_t>(i);
      index.put(file, static_cast<std::uint32_t>(i));
    }
  }
}

}  // namespace
}  // namespace gpemu::pipeline
