// SPDX-License-Identifier: Apache-2.0
#include "gpemu/step/host_times.hpp"

#include <gtest/gtest.h>

#include "gpemu/kernels/described_operation.hpp"

namespace gpemu::step {
namespace {

TEST(HostTimes, AreTypicalWithoutACalibration) {
  const HostTimes host{profile::GpuSpec{}};
  EXPECT_DOUBLE_EQ(host.launch(cost::kHostOperation),
                   cost::kOperationParameters[cost::kHostLaunch].typical *
                       cost::kOperationParameters[cost::kHostOperation].typical);
  EXPECT_DOUBLE_EQ(host.wait(false), cost::kOperationParameters[cost::kHostBackward].typical);
  EXPECT_FALSE(host.listed_tensor());
}

TEST(HostTimes, AreThoseOfTheCalibration) {
  profile::GpuSpec gpu;
  gpu.calibration.emplace();
  gpu.calibration->parameters[cost::kHostLaunch] = 2;
  gpu.calibration->parameters[cost::kHostConvolution] = 5e-6;
  gpu.calibration->parameters[cost::kHostForward] = 30e-6;
  gpu.calibration->listed_tensor = 1e-6;
  const HostTimes host(gpu);
  RecordedOperation convolution;
  convolution.kind = GPEMU_OPERATION_CONVOLUTION_FORWARD;
  EXPECT_DOUBLE_EQ(host.launch(convolution, {}, true), 10e-6);
  EXPECT_DOUBLE_EQ(host.wait(true), 30e-6);

  ListedTensors listed;
  EXPECT_FALSE(host.listed_launch(listed));
  RecordedOperation update;
  update.operation_class = kernels::OperationClass::kOptimizer;
  update.shape[0].constant = update.shape[1].constant = 1000;
  update.shape[kernels::kListedTensors].constant = 120;
  listed.add(update);
  update.shape[kernels::kListedTensors].constant = 40;
  listed.add(update);
  EXPECT_DOUBLE_EQ(host.listed_launch(listed).value(), 160 * 1e-6 / 2);
}

}  // namespace
}  // namespace gpemu::step
