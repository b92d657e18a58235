// SPDX-License-Identifier: Apache-2.0
#include "gpemu/net/address.hpp"

#include <gtest/gtest.h>

namespace gpemu::net {
namespace {

TEST(AddressTest, FindsAddresses) {
  const auto read = [](const char* text) {
    const auto address = find_address(text);
    return address ? address->to_string() : "error";
  };
  EXPECT_EQ(read("127.0.0.1:80"), "127.0.0.1:80");
  EXPECT_EQ(read("[::1]:29500"), "[::1]:29500");
  for (const char* wrong :
       {"", ":", "127.0.0.1", "127.0.0.1:", ":80", "::1:80", "[127.0.0.1]:80", "127.0.0.1:0",
        "127.0.0.1:http", "127.0.0.1:70000", "[::1:80", "[]:1"}) {
    EXPECT_EQ(read(wrong), "error") << wrong;
  }
}

TEST(AddressTest, ReadsHostsAndPorts) {
  EXPECT_EQ(parse_host_port("[::1]:5")->str(), "[::1]:5");
  EXPECT_EQ(parse_host_port("node-1:5")->str(), "node-1:5");
  EXPECT_FALSE(parse_host_port("node-1:0"));
  EXPECT_EQ(parse_host_port("node-1:0", 0)->port, 0);
  EXPECT_FALSE(parse_host_port("node-1:", 0));
}

}  // namespace
}  // namespace gpemu::net
