// SPDX-License-Identifier: Apache-2.0
#include "kubernetes/hollow_nodes.hpp"

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "kubernetes/fake_api_server.hpp"

namespace gpemu::tools {
namespace {

using nlohmann::json;

constexpr const char* kPodPath = "/api/v1/namespaces/default/pods";
constexpr const char* kNodes = "/api/v1/nodes";

template <typename Condition>
bool wait_for(Condition condition) {
  for (int i = 0; i < 6000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

TEST(HollowNodes, MakeNodesRunPodsAndGo) {
  FakeApiServer server;
  HollowNodesOptions options{.nodes = {}, .speed = 1000};
  for (const char* name : {"h0", "h1"}) {
    options.nodes.push_back({.name = name,
                             .host = {.millicores = 1000, .memory_mib = 1024},
                             .gpus = 2,
                             .labels = {{kProductLabel, "A100"}}});
  }
  std::atomic<bool> stop = false;
  Result<void> served;
  std::thread serving([&] {
    served = serve_hollow_nodes(server.access(), options, stop, [](const std::string&) {});
  });
  ASSERT_TRUE(wait_for([&] { return server.items(kNodes).size() == 2; }));
  const json node = server.items(kNodes).front();
  EXPECT_EQ(node["metadata"]["labels"]["nvidia.com/gpu.product"], "A100");
  EXPECT_EQ(node["status"]["allocatable"]["nvidia.com/gpu"], "2");
  EXPECT_EQ(node["spec"]["taints"][0]["key"], "gpemu.dev/hollow");
  server.answer(
      "POST", kPodPath,
      {{"metadata", {{"name", "p"}, {"annotations", {{"gpemu.dev/seconds", "50"}}}}},
       {"spec", {{"nodeName", "h1"}, {"containers", json::array({json{{"name", "c"}}})}}}});
  EXPECT_TRUE(wait_for(
      [&] { return text_at(server.items(kPodPath).front(), "/status/phase") == "Succeeded"; }));
  server.answer("DELETE", std::string(kPodPath) + "/p", {});
  EXPECT_TRUE(wait_for([&] { return server.items(kPodPath).empty(); }));
  stop = true;
  serving.join();
  EXPECT_TRUE(served);
  EXPECT_TRUE(server.items(kNodes).empty());
  EXPECT_TRUE(
      server.items("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases").empty());
}

TEST(HollowNodes, ANodeThatIsNotHollowStays) {
  FakeApiServer server;
  server.answer("POST", kNodes, {{"metadata", {{"name", "real"}}}});
  const HollowNodesOptions options{.nodes = {{.name = "real", .host = {}, .labels = {}}}};
  const std::atomic<bool> stop = false;
  const auto served = serve_hollow_nodes(server.access(), options, stop, [](const std::string&) {});
  ASSERT_FALSE(served);
  EXPECT_NE(served.error().message.find("there is a node real that is not hollow"),
            std::string::npos);
  EXPECT_EQ(server.items(kNodes).size(), 1);
}

}  // namespace
}  // namespace gpemu::tools
