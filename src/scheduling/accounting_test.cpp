// SPDX-License-Identifier: Apache-2.0
#include "gpemu/scheduling/accounting.hpp"

#include <gtest/gtest.h>

namespace gpemu::scheduling {
namespace {

TEST(AccountingTest, IsFoundByItsName) {
  EXPECT_EQ(find_accounting("change"), Accounting::kChange);
  EXPECT_EQ(find_accounting("free"), Accounting::kFree);
  EXPECT_EQ(find_accounting("muri"), Accounting::kMuri);
  EXPECT_EQ(accountings().front().accounting, Accounting::kChange);
  EXPECT_EQ(find_accounting("none").error().message,
            "there is no accounting none; there are change, free, muri");
}

}  // namespace
}  // namespace gpemu::scheduling
