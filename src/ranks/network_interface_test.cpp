// SPDX-License-Identifier: Apache-2.0
#include "network_interface.hpp"

#include <sys/socket.h>
#include <vector>

#include <gtest/gtest.h>

namespace gpemu::ranks {
namespace {

std::optional<net::SocketAddress> choose(std::vector<std::pair<std::string, int>> interfaces,
                                         std::string_view named, std::string_view family = "") {
  std::vector<InterfaceAddress> addresses;
  for (const auto& [name, kind] : interfaces) {
    net::SocketAddress address{.family = static_cast<std::uint16_t>(kind)};
    address.number[0] = static_cast<std::uint8_t>(addresses.size());
    addresses.push_back({name, address});
  }
  return choose_address(addresses, named, family);
}
/// Returns the index of the chosen interface, -1 for none.
int chosen(std::vector<std::pair<std::string, int>> interfaces, std::string_view named,
           std::string_view family = "") {
  const auto address = choose(std::move(interfaces), named, family);
  return address ? address->number[0] : -1;
}

TEST(NetworkInterface, IsChosenAsByNccl) {
  const std::vector<std::pair<std::string, int>> all = {{"lo", AF_INET},    {"docker0", AF_INET},
                                                        {"eth0", AF_INET6}, {"eth0", AF_INET},
                                                        {"eth01", AF_INET}, {"ib0", AF_INET}};
  EXPECT_EQ(chosen(all, ""), 5);
  EXPECT_EQ(chosen(all, "eth"), 2);
  EXPECT_EQ(chosen(all, "eth", "AF_INET"), 3);
  EXPECT_EQ(chosen(all, "=eth01"), 4);
  EXPECT_EQ(chosen(all, "nothing,docker"), 1);
  EXPECT_EQ(chosen(all, "^lo,docker"), 2);
  EXPECT_EQ(chosen(all, "^=lo,eth0,ib0"), 1);
  EXPECT_EQ(chosen(all, "nothing"), -1);
  EXPECT_EQ(chosen({{"lo", AF_INET}, {"docker0", AF_INET}, {"eth0", AF_INET}}, ""), 2);
  EXPECT_EQ(chosen({{"lo", AF_INET}, {"docker0", AF_INET}}, ""), 1);
  EXPECT_EQ(chosen({{"lo", AF_INET}}, ""), 0);
  EXPECT_EQ(chosen({}, ""), -1);
}

}  // namespace
}  // namespace gpemu::ranks
