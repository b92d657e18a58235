// SPDX-License-Identifier: Apache-2.0
#include "kubernetes/xid_events.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "gpemu/device/node.hpp"

#include "kubernetes/fake_api_server.hpp"

namespace gpemu::tools {
namespace {

std::vector<std::string> events(FakeApiServer& server) {
  std::vector<std::string> texts;
  for (const auto& event : server.items("/api/v1/namespaces/default/events")) {
    EXPECT_EQ(event["involvedObject"]["kind"], "Node");
    EXPECT_EQ(event["involvedObject"]["name"], "n1");
    texts.push_back(event["message"]);
  }
  return texts;
}

TEST(XidEvents, EachXidIsToldOnce) {
  FakeApiServer server;
  device::NodeConfig config{.name = "private"};
  config.devices.assign(2, {.gpu = "GPU", .memory_bytes = kGiB});
  config.faults =
      "[[fault]]\nkind = \"lost\"\ngpu = 1\nat_s = 0\nfor_s = 1000\n"
      "[[fault]]\nkind = \"lost\"\ngpu = 0\nat_s = 1000000\n";
  const auto machine = device::Node::create_private(config).value();
  XidEvents xids(ApiServer::create(server.access()).value(), "n1");
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(xids.look(*machine));
  const std::string uuid = machine->device_snapshot(1, TimePoint{}).uuid;
  EXPECT_EQ(events(server), std::vector{"GPU 1 (" + uuid + "): Xid 79"});
}

}  // namespace
}  // namespace gpemu::tools
