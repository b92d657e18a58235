// SPDX-License-Identifier: Apache-2.0
#include "gpemu/launch/prices.hpp"

#include <cstdint>
#include <memory>
#include <random>

#include <gtest/gtest.h>

#include "gpemu/kernels/kernel_traits.hpp"

namespace gpemu::launch {
namespace {

std::unique_ptr<process::DeviceState> device_with(double bytes_per_s) {
  auto device = std::make_unique<process::DeviceState>();
  device->spec.multiprocessors = 80;
  device->spec.fp32_flops = 14e12;
  device->spec.memory_bandwidth_bytes_per_s = bytes_per_s;
  device->spec.boost_clock_mhz = 1380;
  device->costs = std::make_unique<cost::OperationCostModel>(device->spec);
  return device;
}

/// More operations than are remembered, which differ in any of the entries that count.
TEST(Prices, AreThoseOfTheDevice) {
  const auto fast = device_with(900e9), slow = device_with(200e9);
  std::mt19937 random(1);
  const auto below = [&](std::uint32_t end) { return random() % end; };
  for (int i = 0; i < 20000; ++i) {
    gpemu_operation operation{
        .struct_size = sizeof(operation),
        .kind = below(2) == 0 ? GPEMU_OPERATION_MATMUL : GPEMU_OPERATION_ELEMENTWISE,
        .type = below(2) == 0 ? GPEMU_TYPE_FP32 : GPEMU_TYPE_FP16,
        .name = "test"};
    for (int entry = 0; entry < 4; ++entry) operation.shape[entry] = 1 + 999 * below(3);
    operation.access = below(2) == 0 ? GPEMU_ACCESS_CONTIGUOUS : GPEMU_ACCESS_STRIDED;
    const kernels::DescribedOperation described = kernels::describe_operation(operation);
    for (const process::DeviceState* device : {fast.get(), slow.get()}) {
      const cost::OperationCost expected = device->costs->price(described);
      const cost::OperationCost found = price_on(*device, described);
      ASSERT_EQ(found.estimate.time, expected.estimate.time);
      ASSERT_EQ(found.estimate.relative_error, expected.estimate.relative_error);
      ASSERT_EQ(found.memory_share, expected.memory_share);
    }
  }
}

}  // namespace
}  // namespace gpemu::launch
