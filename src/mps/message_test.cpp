// SPDX-License-Identifier: Apache-2.0
#include "gpemu/mps/message.hpp"

#include <string>

#include <gtest/gtest.h>

#include "gpemu/base/text.hpp"

namespace gpemu::mps {
namespace {

TEST(MpsMessage, ComesBackAsItWasSent) {
  const Message sent{.kind = "hello",
                     .values = {{"pid", "12"}, {"command", "python train.py"}, {"empty", ""}},
                     .text = "two\nlines\n"};
  const auto received = decode(encode(sent));
  ASSERT_TRUE(received) << received.error().message;
  EXPECT_EQ(received->kind, "hello");
  EXPECT_EQ(received->values, sent.values);
  EXPECT_EQ(received->text, sent.text);
  EXPECT_EQ(received->number("pid"), 12);
  EXPECT_FALSE(received->number("command"));
  EXPECT_EQ(received->value("other"), "");
}

TEST(MpsMessage, AValueCannotAddAnother) {
  const Message sent{.kind = "hello", .values = {{"command", "a\nserver 7"}}, .text = {}};
  EXPECT_EQ(decode(encode(sent))->values.size(), 1U);
}

TEST(MpsMessage, WhatIsNoMessageIsRefused) {
  for (const std::string text :
       {"", "\n", "hello", "hello\n", "hello\npid\n\n", "hello\n 12\n\n", "hello\npid 12\n"}) {
    EXPECT_FALSE(decode(text)) << printable(text);
  }
}

TEST(MpsMessage, ATooLongOneIsCutOff) {
  const Message sent{
      .kind = "reply", .values = {}, .text = std::string(2 * kMostMessageBytes, 'x')};
  EXPECT_EQ(encode(sent).size(), kMostMessageBytes);
}

}  // namespace
}  // namespace gpemu::mps
