// SPDX-License-Identifier: Apache-2.0
#include "news.hpp"

#include <deque>
#include <optional>
#include <utility>
#include <vector>

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
    const News::Waiting one(news, nullptr);
    std::optional<News::Waiting> other(std::in_place, news, nullptr);
    other.reset();
    EXPECT_TRUE(news.are_awaited());
  }
  EXPECT_FALSE(news.are_awaited());
}

TEST(News, TellForWhichRoundsThreadsWait) {
  constexpr std::size_t kMany = 20;  // More than have a place.
  News news;
  const Mark round(nullptr, TimePoint());
  const auto awaited = [&news] {
    const News::Awaited marks(news);
    return std::vector<const Mark*>(marks.begin(), marks.end());
  };
  EXPECT_EQ(awaited(), std::vector<const Mark*>{});
  std::deque<News::Waiting> threads;
  threads.emplace_back(news, &round);
  EXPECT_EQ(awaited(), std::vector{&round});
  while (threads.size() < kMany) threads.emplace_back(news, &round);
  EXPECT_EQ(awaited().front(), nullptr) << "some wait for anything, as far as is known";
  while (threads.size() > 1) threads.pop_back();
  EXPECT_EQ(awaited(), std::vector{&round});
  threads.pop_back();
  EXPECT_EQ(awaited(), std::vector<const Mark*>{});
}

TEST(News, AWaitReturnsIfTheyCameBefore) {
  News news;
  sim::RealClock clock;
  const std::uint32_t seen = news.count();
  const News::Waiting waiting(news, nullptr);
  news.tell();
  waiting.wait(clock, seen, TimePoint::max());
  EXPECT_NE(news.count(), seen);
}

TEST(News, AWaitReturnsAtItsDeadline) {
  News news;
  sim::VirtualClock clock;
  const News::Waiting waiting(news, nullptr);
  waiting.wait(clock, news.count(), at_ns(5));
  EXPECT_EQ(clock.now(), at_ns(5));
}

}  // namespace
}  // namespace gpemu::device
