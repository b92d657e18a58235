// SPDX-License-Identifier: Apache-2.0
#include "gpemu/ranks/mailbox.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace gpemu::ranks {
namespace {

/// The mailboxes of two ranks, both in this process.
class MailboxTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const int rank : {0, 1}) {
      auto made = Mailbox::create({rank, 2});
      ASSERT_TRUE(made.has_value()) << made.error().message;
      boxes_[static_cast<std::size_t>(rank)] = *std::move(made);
    }
    ASSERT_TRUE(boxes_[0]->open_peer(1, boxes_[1]->ticket()));
    ASSERT_TRUE(boxes_[1]->open_peer(0, boxes_[0]->ticket()));
  }

  static Mailbox::Part kept(Bytes bytes) {
    return {.bytes = bytes, .content = memory::Content::kKept};
  }
  /// Posts a text as rank 0.
  void post(std::uint64_t number, std::string_view text, Bytes count = 1) {
    const std::array parts{kept(text.size())};
    boxes_[0]->announce(number, {.kind = GPEMU_CUDA_ALL_GATHER, .count = count});
    boxes_[0]->post(number, parts, reinterpret_cast<const std::byte*>(text.data()));
  }
  /// Reads it as rank 1.
  std::string read(std::uint64_t number, Bytes offset, Bytes bytes) {
    std::string text(bytes, '?');
    EXPECT_TRUE(boxes_[1]->read(0, number, offset, std::as_writable_bytes(std::span(text))));
    return text;
  }

  std::array<std::unique_ptr<Mailbox>, 2> boxes_;
};

TEST_F(MailboxTest, AnotherRankReadsWhatIsPosted) {
  const std::string large(100'000, 'x');
  EXPECT_FALSE(boxes_[1]->has_posted(0, 0));
  post(1, large, 7);
  EXPECT_FALSE(boxes_[1]->has_posted(0, 0));
  ASSERT_TRUE(boxes_[1]->has_posted(0, 1));
  post(0, "small");
  ASSERT_TRUE(boxes_[1]->has_posted(0, 0));
  EXPECT_EQ(read(0, 1, 3), "mal");
  EXPECT_EQ(boxes_[1]->call(0, 1).count, 7U);
  EXPECT_EQ(boxes_[1]->call(0, 1).kind, GPEMU_CUDA_ALL_GATHER);
  EXPECT_EQ(read(1, 50'000, 50'000), large.substr(50'000));
  EXPECT_TRUE(boxes_[0]->has_posted(0, 0)) << "it reads its own, too";
}

TEST_F(MailboxTest, ACallIsSeenBeforeItsSource) {
  boxes_[0]->announce(0, {.kind = GPEMU_CUDA_BROADCAST, .root = 1, .count = 9});
  ASSERT_TRUE(boxes_[1]->has_announced(0, 0));
  EXPECT_FALSE(boxes_[1]->has_announced(0, 1));
  EXPECT_FALSE(boxes_[1]->has_posted(0, 0));
  EXPECT_EQ(boxes_[1]->call(0, 0).root, 1);
  EXPECT_EQ(boxes_[1]->call(0, 0).count, 9U);
}

TEST_F(MailboxTest, ANoticeIsSeenByAllOnceItIsShown) {
  Mailbox::Notice notice{};
  notice.back() = std::byte{7};
  EXPECT_FALSE(boxes_[1]->notice(0));
  boxes_[0]->show(notice);
  EXPECT_EQ(boxes_[1]->notice(0), notice);
  EXPECT_EQ(boxes_[0]->notice(0), notice);
  EXPECT_FALSE(boxes_[0]->notice(1));
}

TEST_F(MailboxTest, ExistsWhileItsProcessHasIt) {
  const Mailbox::Ticket ticket = boxes_[1]->ticket();
  EXPECT_TRUE(Mailbox::exists(ticket));
  boxes_[1].reset();
  EXPECT_FALSE(Mailbox::exists(ticket));
}

TEST_F(MailboxTest, PartsThatAreNotInPagesTakeNoPlace) {
  const std::string text = "abc??????defgh";
  const std::array parts{kept(3),
                         Mailbox::Part{.bytes = 6, .content = memory::Content::kNotComputed},
                         Mailbox::Part{.bytes = 5, .content = memory::Content::kNotUpdated}};
  boxes_[0]->post(0, parts, reinterpret_cast<const std::byte*>(text.data()));
  const auto seen = boxes_[1]->parts(0, 0);
  ASSERT_EQ(seen.size(), 3U);
  EXPECT_EQ(seen[1].bytes, 6U);
  EXPECT_EQ(seen[1].content, memory::Content::kNotComputed);
  EXPECT_EQ(read(0, 0, 8), "abcdefgh");
  boxes_[0]->post(1, {}, nullptr);
  EXPECT_TRUE(boxes_[1]->has_posted(0, 1));
  EXPECT_TRUE(boxes_[1]->parts(0, 1).empty());
}

TEST_F(MailboxTest, OnePartWithoutBytesTakesNoFile) {
  boxes_[0]->post(0, {}, nullptr);
  const Bytes log = boxes_[0]->held();
  for (const memory::Content content :
       {memory::Content::kZeros, memory::Content::kNotKept, memory::Content::kNotComputed}) {
    const std::uint64_t number = 1 + static_cast<std::uint64_t>(content);
    const std::array parts{Mailbox::Part{.bytes = 3 * kMiB, .content = content}};
    boxes_[0]->post(number, parts, nullptr);
    const auto seen = boxes_[1]->parts(0, number);
    ASSERT_EQ(seen.size(), 1U);
    EXPECT_EQ(seen[0].bytes, 3 * kMiB);
    EXPECT_EQ(seen[0].content, content);
    std::array<std::byte, 1> byte{};
    EXPECT_FALSE(boxes_[1]->read(0, number, 0, byte))
        << "nobody may ask for bytes that are not there";
  }
  EXPECT_EQ(boxes_[0]->held(), log);
}

TEST_F(MailboxTest, WhatAllHaveReadIsGivenBack) {
  constexpr Bytes kLarge = kMiB;
  const std::string large(kLarge, 'y');
  Bytes most = 0;
  for (std::uint64_t number = 0; number < 100; ++number) {
    post(number, large);
    EXPECT_EQ(read(number, kLarge - 1, 1), "y");
    for (const auto& box : boxes_) box->finish(number);
    most = std::max(most, boxes_[0]->held());
  }
  EXPECT_LE(most, 8 * kLarge);
}

TEST_F(MailboxTest, WhatOneHasNotReadStays) {
  const std::string large(kMiB, 'z');
  for (std::uint64_t number = 0; number < 20; ++number) {
    post(number, large);
    boxes_[0]->finish(number);
    if (number != 3) boxes_[1]->finish(number);
  }
  EXPECT_EQ(read(3, 0, large.size()), large);
  boxes_[1]->finish(3);
  post(20, large);
  EXPECT_LE(boxes_[0]->held(), 8 * kMiB);
}

TEST_F(MailboxTest, EntriesAreUsedAgainOnceAllHaveFinished) {
  EXPECT_TRUE(boxes_[0]->has_room(Mailbox::kMostEntries - 1));
  EXPECT_FALSE(boxes_[0]->has_room(Mailbox::kMostEntries));
  boxes_[0]->finish(0);
  EXPECT_FALSE(boxes_[0]->has_room(Mailbox::kMostEntries));
  boxes_[1]->finish(0);
  ASSERT_TRUE(boxes_[0]->has_room(Mailbox::kMostEntries));
  post(0, "old");
  post(Mailbox::kMostEntries, "new");
  EXPECT_FALSE(boxes_[1]->has_posted(0, 0));
  EXPECT_EQ(read(Mailbox::kMostEntries, 0, 3), "new");
}

TEST_F(MailboxTest, ARankThatWaitsIsSeen) {
  EXPECT_FALSE(boxes_[0]->is_awaited_by(1, 0));
  boxes_[1]->await(0, 5);
  EXPECT_TRUE(boxes_[0]->is_awaited_by(1, 5));
  EXPECT_FALSE(boxes_[0]->is_awaited_by(1, 4));
  EXPECT_FALSE(boxes_[0]->is_awaited_by(1, 6));
  EXPECT_FALSE(boxes_[1]->stop_awaiting(0, 5));
  EXPECT_FALSE(boxes_[0]->is_awaited_by(1, 5));
}

TEST_F(MailboxTest, OnlyTheFirstAwaitedPostIsSeen) {
  boxes_[1]->await(0, 6);
  boxes_[1]->await(0, 5);
  EXPECT_TRUE(boxes_[0]->is_awaited_by(1, 5));
  EXPECT_FALSE(boxes_[0]->is_awaited_by(1, 6));
  EXPECT_FALSE(boxes_[1]->stop_awaiting(0, 5));
  EXPECT_TRUE(boxes_[0]->is_awaited_by(1, 6));
  boxes_[1]->await(0, 5);
  post(6, "came without a ring");
  EXPECT_TRUE(boxes_[1]->stop_awaiting(0, 5));
}

TEST_F(MailboxTest, ForgedTicketsAreRefused) {
  Mailbox::Ticket ticket = boxes_[0]->ticket();
  ++ticket.inode;
  EXPECT_EQ(boxes_[1]->open_peer(0, ticket).error().code, ErrorCode::kCorruptData);
  ticket.descriptor = 0;
  EXPECT_FALSE(boxes_[1]->open_peer(0, ticket));
  ticket.process = -1;
  EXPECT_EQ(boxes_[1]->open_peer(0, ticket).error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace gpemu::ranks
