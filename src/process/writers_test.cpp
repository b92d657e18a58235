// SPDX-License-Identifier: Apache-2.0
#include "gpemu/process/writers.hpp"

#include <gtest/gtest.h>

namespace gpemu::process {
namespace {

TEST(WriterId, IsTheSameForTheSameName) {
  const WriterId add = writer_id("add"), all = writer_id("all");
  EXPECT_NE(add, all);
  EXPECT_EQ(writer_id("add"), add);
  EXPECT_EQ(writer_name(all), "all");
  EXPECT_EQ(writer_name(0), "");
}

}  // namespace
}  // namespace gpemu::process
