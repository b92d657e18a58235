// SPDX-License-Identifier: Apache-2.0
#include "gpemu/base/per_thread.hpp"

#include <thread>

#include <gtest/gtest.h>

namespace gpemu {
namespace {

int ended = 0;

struct Counted {
  Counted() = default;
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  ~Counted() { ++ended; }
  int value = 0;
};

/// Asks for the thread's object when the object has ended: it is made first, and so ends last.
struct AsksLate {
  AsksLate() = default;
  AsksLate(const AsksLate&) = delete;
  AsksLate& operator=(const AsksLate&) = delete;
  ~AsksLate() { *late = PerThread<Counted>::get(); }
  Counted** late = nullptr;
};

TEST(PerThreadTest, EachThreadHasItsOwnUntilItEnds) {
  PerThread<Counted>::get()->value = 1;
  Counted* late = nullptr;
  std::thread([&late] {
    thread_local AsksLate asks;
    late = PerThread<Counted>::get();
    asks.late = &late;
    EXPECT_EQ(late->value, 0);
    EXPECT_EQ(PerThread<Counted>::get(), late);
    EXPECT_EQ(ended, 0);
  }).join();
  EXPECT_EQ(ended, 1);
  EXPECT_EQ(late, nullptr) << "the object must not be made again";
  EXPECT_EQ(PerThread<Counted>::get()->value, 1);
}

}  // namespace
}  // namespace gpemu
