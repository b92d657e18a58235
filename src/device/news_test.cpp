// SPDX-License-Identifier: Apache-2.0
#include "news.hpp"

#include <optional>

#include <gtest/gtest.h>

namespace gpemu::device {
namespace {

TEST(News, EachOneChangesTheCount) {
  News news;
  const std::uint32_t before = news.count();
  news.tell();
  EXPECT_NE(news.count(), before);
}

TEST(News, AreAwaitedWhileAThreadWaits) {
  News news;
  EXPECT_FALSE(news.are_awaited());
  {
    const News::Waiting one(news);
    std::optional<News::Waiting> other(news);
    other.reset();
    EXPECT_TRUE(news.are_awaited());
  }
  EXPECT_FALSE(news.are_awaited());
}

TEST(News, AWaitReturnsIfTheyCameBefore) {
  News news;
  sim::RealClock clock;
  const std::uint32_t seen = news.count();
  const News::Waiting waiting(news);
  news.tell();
  waiting.wait(clock, seen, TimePoint::max());
  EXPECT_NE(news.count(), seen);
}

TEST(News, AWaitReturnsAtItsDeadline) {
  News news;
  sim::VirtualClock clock;
  const News::Waiting waiting(news);
  waiting.wait(clock, news.count(), at_ns(5));
  EXPECT_EQ(clock.now(), at_ns(5));
}

}  // namespace
}  // namespace gpemu::device
