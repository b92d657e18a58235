// SPDX-License-Identifier: Apache-2.0
#include "gpemu/sim/event_queue.hpp"

#include <gtest/gtest.h>

namespace gpemu::sim {
namespace {

TEST(EventQueue, YieldsByTimeThenByInsertion) {
  EventQueue<char> queue;
  queue.push(at_ns(20), 'c');
  queue.push(at_ns(10), 'a');
  queue.push(at_ns(10), 'b');
  queue.push(at_ns(5), 'x');
  std::string order;
  while (!queue.empty()) order += queue.pop().payload;
  EXPECT_EQ(order, "xabc");
}

}  // namespace
}  // namespace gpemu::sim
