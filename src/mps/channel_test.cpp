// SPDX-License-Identifier: Apache-2.0
#include "gpemu/mps/channel.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>

#include <gtest/gtest.h>

namespace gpemu::mps {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): literals only.

class MpsChannelTest : public testing::Test {
 protected:
  MpsChannelTest() {
    std::string name = std::filesystem::temp_directory_path() / "gpemu-mps-XXXXXX";
    folder_ = ::mkdtemp(name.data());
  }
  ~MpsChannelTest() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_;
};

TEST_F(MpsChannelTest, MessagesStayWhole) {
  auto [one, other] = make_pair().value();
  ASSERT_TRUE(one.send({.kind = "first", .values = {{"a", "1"}}, .text = {}}));
  ASSERT_TRUE(one.send({.kind = "second", .values = {}, .text = "text"}));
  EXPECT_EQ(other.receive()->message.kind, "first");
  EXPECT_EQ(other.receive()->message.text, "text");
  EXPECT_EQ(other.receive(0ms).error().code, ErrorCode::kNotReady);
}

TEST_F(MpsChannelTest, OneEndNoticesTheEndOfTheOther) {
  auto [one, other] = make_pair().value();
  one.close();
  EXPECT_EQ(other.receive().error().code, ErrorCode::kUnavailable);
  EXPECT_FALSE(other.send({.kind = "hello", .values = {}, .text = {}}));
}

TEST(ChannelTest, TellsAnEndThatDoesNotReadFromOneThatHasGone) {
  auto [one, other] = make_pair().value();
  const Message message{.kind = "hello", .values = {}, .text = {}};
  Result<void> sent;
  while ((sent = one.send(message))) {
  }
  EXPECT_EQ(sent.error().code, ErrorCode::kNotReady);
  ASSERT_TRUE(other.receive());
  EXPECT_TRUE(one.send(message));
  other.close();
  EXPECT_EQ(one.send(message).error().code, ErrorCode::kUnavailable);
}

TEST_F(MpsChannelTest, ADescriptorComesWithAMessage) {
  auto [one, other] = make_pair().value();
  auto [carried, rest] = make_pair().value();
  ASSERT_TRUE(one.send({.kind = "client", .values = {}, .text = {}}, carried.descriptor()));
  auto received = other.receive();
  ASSERT_TRUE(received);
  const Channel arrived(std::move(received->descriptor));
  ASSERT_TRUE(arrived.valid());
  ASSERT_TRUE(arrived.send({.kind = "through", .values = {}, .text = {}}));
  EXPECT_EQ(rest.receive()->message.kind, "through");
}

TEST_F(MpsChannelTest, AProcessConnectsToTheOneThatListens) {
  const std::filesystem::path path = folder_ / "control";
  EXPECT_EQ(connect_to(path).error().code, ErrorCode::kNotFound);
  {
    const FileDescriptor listener = listen_on(path).value();
    const Channel client = connect_to(path).value();
    const Channel accepted = accept_on(listener).value();
    EXPECT_EQ(accepted.peer(), std::pair(::getpid(), ::getuid()));
    ASSERT_TRUE(client.send({.kind = "hello", .values = {}, .text = {}}));
    EXPECT_EQ(accepted.receive()->message.kind, "hello");
    EXPECT_EQ(listen_on(path).error().code, ErrorCode::kUnavailable);
  }
  EXPECT_EQ(connect_to(path).error().code, ErrorCode::kNotFound) << "its socket is left, but dead";
  EXPECT_TRUE(listen_on(path));
}

TEST_F(MpsChannelTest, OtherFilesAreNoDaemons) {
  std::ofstream(folder_ / "file") << "text";
  EXPECT_FALSE(connect_to(folder_ / "file"));
  EXPECT_FALSE(listen_on(folder_ / "file"));
  EXPECT_TRUE(std::filesystem::is_regular_file(folder_ / "file")) << "it is somebody's";
  EXPECT_EQ(connect_to(folder_ / "file" / "control").error().code, ErrorCode::kNotFound);
  const auto refused = connect_to(folder_ / std::string(200, 'x'));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace gpemu::mps
