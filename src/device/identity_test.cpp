// SPDX-License-Identifier: Apache-2.0
#include "identity.hpp"

#include <set>

#include <gtest/gtest.h>

#include "layout.hpp"

namespace gpemu::device {
namespace {

TEST(DeviceUuid, DependsOnTheNodeAndTheIndexAlone) {
  EXPECT_EQ(device_uuid("n", 0), device_uuid("n", 0));
  EXPECT_NE(device_uuid("n", 0), device_uuid("n", 1));
  EXPECT_NE(device_uuid("n", 0), device_uuid("m", 0));
  EXPECT_NE(device_uuid("n1", 0), device_uuid("n", 10)) << "name and index do not run together";
}

TEST(DevicePciBusId, GoesToTheNextDomainAfter255Buses) {
  EXPECT_EQ(device_pci_bus_id(0), "00000000:01:00.0");
  EXPECT_EQ(device_pci_bus_id(254), "00000000:ff:00.0");
  EXPECT_EQ(device_pci_bus_id(255), "00000001:01:00.0");
}

TEST(UniqueNumber, DiffersInEachCallAndLeavesRoomForASlot) {
  constexpr std::size_t kCalls = 10'000;
  std::set<std::uint64_t> numbers;
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < kCalls; ++i) {
    const std::uint64_t number = unique_number();
    numbers.insert(number);
    bits |= number;
  }
  EXPECT_EQ(numbers.size(), kCalls);
  EXPECT_FALSE(numbers.contains(0));
  EXPECT_EQ(bits, layout::kLeft / layout::kProcessCapacity - 1) << "54 bits, all in use";
}

}  // namespace
}  // namespace gpemu::device
