// SPDX-License-Identifier: Apache-2.0
#include "gpemu/mps/server.hpp"

#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace gpemu::mps {
namespace {

class MpsServerTest : public testing::Test {
 protected:
  Message connect(int client, std::map<std::string, std::string> values = {}) {
    values.emplace("pid", std::to_string(1000 + client));
    values.emplace("command", "./nbody");
    values.emplace("namespace", "4026531836");
    return server_.connect(client, {.kind = "hello", .values = std::move(values), .text = {}})
        .message;
  }
  Message ask_for_context(int client, const std::string& uuid, int most_clients = 60) {
    const auto answers =
        server_.receive(client, {.kind = "context",
                                 .values = {{"uuid", uuid},
                                            {"most_clients", std::to_string(most_clients)},
                                            {"number", "2"},
                                            {"name", "NVIDIA H200"}},
                                 .text = {}});
    return answers.empty() ? Message{} : answers.front().message;
  }
  /// Returns the clients that a fault of one ends.
  std::set<int> fault(int client, int status) {
    std::set<int> ended;
    for (const auto& answer : server_.receive(
             client,
             {.kind = "fault", .values = {{"status", std::to_string(status)}}, .text = {}})) {
      EXPECT_EQ(answer.message.kind, "end");
      EXPECT_EQ(answer.message.number("status"), status);
      ended.insert(answer.client);
    }
    return ended;
  }
  std::string run(std::vector<std::string> words) {
    const Server::Reply reply = server_.execute(words);
    return (reply.good ? "" : "bad: ") + reply.text;
  }

  Server server_{77, {.active_thread_percentage = 60, .device_memory = {{"0", 4 * kGiB}}}};
};

TEST_F(MpsServerTest, AClientGetsTheStricterLimits) {
  const Message welcome = connect(1, {{"percentage", "30"}, {"memory", "0=8G,1=1G"}});
  EXPECT_EQ(welcome.kind, "welcome");
  EXPECT_EQ(welcome.value("server"), "77");
  EXPECT_EQ(welcome.value("percentage"), "30");
  EXPECT_EQ(welcome.value("memory"), "0=4294967296,1=1073741824");
  EXPECT_EQ(connect(2, {{"percentage", "90"}}).value("percentage"), "60");
}

TEST_F(MpsServerTest, CommandsChangeWhatLaterClientsGet) {
  EXPECT_EQ(run({"get_active_thread_percentage"}), "60.0\n");
  EXPECT_EQ(run({"set_active_thread_percentage", "25"}), "25.0\n");
  EXPECT_EQ(connect(1).value("percentage"), "25");
  EXPECT_EQ(run({"get_device_pinned_mem_limit", "0"}), "4096M\n");
  EXPECT_EQ(run({"set_device_pinned_mem_limit", "0", "1G"}), "");
  EXPECT_EQ(run({"get_device_pinned_mem_limit", "0"}), "1024M\n");
  EXPECT_EQ(run({"get_device_pinned_mem_limit", "5"}), "");
  EXPECT_TRUE(run({"set_active_thread_percentage", "0"}).starts_with("bad: "));
  EXPECT_TRUE(run({"set_device_pinned_mem_limit", "0", "much"}).starts_with("bad: "));
  EXPECT_TRUE(run({"set_active_thread_percentage"}).starts_with("bad: "));
  EXPECT_TRUE(run({"sing"}).starts_with("bad: "));
}

TEST_F(MpsServerTest, SixtyClientsUseADeviceAndThe61stIsRefused) {
  for (int client = 0; client < 60; ++client) {
    static_cast<void>(connect(client));
    ASSERT_EQ(ask_for_context(client, "GPU-a").kind, "granted") << client;
  }
  static_cast<void>(connect(60));
  const Message refused = ask_for_context(60, "GPU-a");
  EXPECT_EQ(refused.kind, "refused");
  EXPECT_EQ(refused.number("status"), kMaxClientsReached);
  EXPECT_EQ(ask_for_context(60, "GPU-b").kind, "granted") << "another device";
  EXPECT_EQ(ask_for_context(3, "GPU-a").kind, "granted") << "it has a context there already";
  server_.disconnect(17);
  EXPECT_EQ(ask_for_context(60, "GPU-a").kind, "granted");
}

TEST_F(MpsServerTest, AdmitsAsManyClientsAsTheGpuAllows) {
  for (int client = 0; client <= 16; ++client) {
    static_cast<void>(connect(client));
    EXPECT_EQ(ask_for_context(client, "GPU-a", 16).kind, client < 16 ? "granted" : "refused");
  }
}

TEST_F(MpsServerTest, AFaultReachesAllClientsOfTheGpusThatShareOne) {
  for (const int client : {1, 2, 3, 4, 5}) static_cast<void>(connect(client));
  static_cast<void>(ask_for_context(1, "GPU-a"));
  static_cast<void>(ask_for_context(2, "GPU-a"));
  static_cast<void>(ask_for_context(2, "GPU-b"));
  static_cast<void>(ask_for_context(3, "GPU-b"));
  static_cast<void>(ask_for_context(4, "GPU-c"));
  EXPECT_EQ(run({"get_server_status"}), "ACTIVE\n");
  EXPECT_EQ(fault(1, 700), (std::set{1, 2, 3})) << "not the one on a GPU by itself";
  EXPECT_EQ(fault(2, 700), (std::set<int>{})) << "they know it";
  EXPECT_EQ(run({"get_server_status"}), "FAULT\n");
  const Message refused = connect(6);
  EXPECT_EQ(refused.kind, "refused");
  EXPECT_EQ(refused.number("status"), kServerNotReady);
  server_.disconnect(1);
  server_.disconnect(2);
  EXPECT_EQ(connect(6).kind, "refused") << "one is left";
  server_.disconnect(3);
  EXPECT_EQ(run({"get_server_status"}), "ACTIVE\n");
  EXPECT_EQ(connect(6).kind, "welcome");
  EXPECT_EQ(ask_for_context(4, "GPU-a").kind, "granted") << "it went on all the time";
}

TEST_F(MpsServerTest, AClientCanBeTerminated) {
  static_cast<void>(connect(1));
  static_cast<void>(connect(2));
  const std::vector<std::string> words = {"terminate_client", "1002"};
  const Server::Reply reply = server_.execute(words);
  EXPECT_TRUE(reply.good);
  ASSERT_EQ(reply.answers.size(), 1U);
  EXPECT_EQ(reply.answers[0].client, 2);
  EXPECT_EQ(reply.answers[0].message.number("status"), kClientTerminated);
  EXPECT_EQ(run({"get_server_status"}), "ACTIVE\n") << "nobody else is concerned";
  EXPECT_EQ(ask_for_context(2, "GPU-a").kind, "") << "it is ignored";
  EXPECT_EQ(run({"terminate_client", "1009"}), "bad: server 77 has no client 1009\n");
}

TEST_F(MpsServerTest, ListsItsClients) {
  EXPECT_FALSE(server_.has_clients());
  static_cast<void>(connect(1));
  static_cast<void>(connect(2));
  const std::string uuid = "GPU-cb1213a3-d6a4-be7f-0000-000000000000";
  static_cast<void>(ask_for_context(1, uuid));
  static_cast<void>(ask_for_context(2, uuid));
  EXPECT_TRUE(server_.has_clients());
  EXPECT_EQ(run({"get_client_list"}), "1001\n1002\n");
  EXPECT_EQ(run({"get_device_client_list"}), "[2] 00:00.0, NVIDIA H200\n1001.1\n1002.1\n");
  EXPECT_EQ(
      run({"ps"}),
      "1001      1         77             GPU-cb1213a3-d6a4-be7f    4026531836     ./nbody\n"
      "1002      2         77             GPU-cb1213a3-d6a4-be7f    4026531836     ./nbody\n");
}

TEST_F(MpsServerTest, StrangeMessagesDoNoHarm) {
  static_cast<void>(connect(1, {{"percentage", "many"}, {"memory", "much"}}));
  EXPECT_TRUE(server_.receive(9, {.kind = "context", .values = {}, .text = {}}).empty());
  EXPECT_TRUE(server_.receive(1, {.kind = "song", .values = {}, .text = {}}).empty());
  EXPECT_EQ(fault(1, -3), (std::set{1}));
  server_.disconnect(9);
}

}  // namespace
}  // namespace gpemu::mps
