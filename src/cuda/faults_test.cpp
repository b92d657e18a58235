// SPDX-License-Identifier: Apache-2.0
//
// Each test runs in a process of its own, which attaches to a node with faults.
#include "gpemu/process/faults.hpp"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gpemu/process/process.hpp"

namespace gpemu::cuda {
namespace {

/// A node of two V100, the first of which has a fault, for the process that a test starts.
class FaultsTest : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  /// Makes this process use a node that is made now. `fault`: without its GPU.
  void use_node(const std::string& fault) {
    folder_ =
        std::filesystem::path(testing::TempDir()) / fmt::format("gpemu_cuda_faults_{}", ::getpid());
    const device::DeviceConfig device{.gpu = "V100-PCIE-32GB", .memory_bytes = kGiB};
    node_ =
        device::Node::create(
            {.name = "n", .devices = {device, device}, .faults = "[[fault]]\ngpu = 0\n" + fault},
            folder_)
            .value();
    ::unsetenv("GPEMU_GPU");
    ::unsetenv("CUDA_VISIBLE_DEVICES");
    ::setenv("GPEMU_PROFILES", GPEMU_TEST_PROFILES, 1);
    ::setenv("GPEMU_NODE_DIR", folder_.c_str(), 1);
    ::setenv("GPEMU_NODE", "n", 1);
  }

  /// Ends this process: with 0 if all was as expected.
  void end() {
    std::filesystem::remove_all(folder_);
    ::_exit(HasFailure() ? 1 : 0);
  }

  std::filesystem::path folder_;
  std::shared_ptr<device::Node> node_;
};

TEST_F(FaultsTest, ALostGpuFailsAllCallsAndTheOtherNone) {
  EXPECT_EXIT(
      {
        use_node("kind = \"lost\"\nat_s = 0\n");
        EXPECT_EQ(gpemu_cuda_set_current_device(0), GPEMU_CUDA_ERROR_UNKNOWN);
        EXPECT_EQ(gpemu_cuda_context_retain(0), GPEMU_CUDA_ERROR_UNKNOWN);
        EXPECT_EQ(gpemu_cuda_set_current_device(1), GPEMU_CUDA_SUCCESS);
        EXPECT_EQ(gpemu_cuda_device_synchronize(), GPEMU_CUDA_SUCCESS);
        EXPECT_FALSE(process::process().devices[1]->has_faults);
        end();
      },
      testing::ExitedWithCode(0), "Xid .*: 79, GPU 0 of node 'n' has fallen off the bus");
}

TEST_F(FaultsTest, AWaitEndsWhenTheGpuIsLost) {
  EXPECT_EXIT(
      {
        use_node("kind = \"lost\"\nat_s = 0.5\n");
        EXPECT_EQ(gpemu_cuda_set_current_device(0), GPEMU_CUDA_SUCCESS);
        process::DeviceState& device = *process::process().devices[0];
        // After work of an hour, and after a moment that nothing on the device has to do with.
        device.device->default_stream().launch(std::chrono::hours(1));
        EXPECT_EQ(gpemu_cuda_device_synchronize(), GPEMU_CUDA_ERROR_UNKNOWN);
        process::wait_on_device(device::Moment(node_->clock().now() + std::chrono::hours(1)),
                                &device);
        EXPECT_TRUE(process::is_lost(device));
        EXPECT_LE(process::time_to_loss(device).value(), Duration::zero());
        end();
      },
      testing::ExitedWithCode(0), "79");
}

TEST_F(FaultsTest, AProcessIsKilledAtItsCollective) {
  EXPECT_EXIT(
      {
        use_node("kind = \"kill\"\nat_collective = 2\n");
        EXPECT_EQ(gpemu_cuda_set_current_device(0), GPEMU_CUDA_SUCCESS);
        std::filesystem::remove_all(folder_);
        process::count_for_faults(*process::process().devices[1]);
        process::count_for_faults(*process::process().devices[0]);
        ::write(STDERR_FILENO, "lives\n", 6);
        process::count_for_faults(*process::process().devices[0]);
        ::_exit(0);
      },
      testing::KilledBySignal(SIGKILL), "lives");
}

TEST_F(FaultsTest, AProcessIsKilledAtATimeIfItUsesTheGpu) {
  EXPECT_EXIT(
      {
        use_node("kind = \"kill\"\nat_s = 0.5\n");
        EXPECT_EQ(gpemu_cuda_set_current_device(0), GPEMU_CUDA_SUCCESS);
        std::filesystem::remove_all(folder_);
        while (true) ::pause();
      },
      testing::KilledBySignal(SIGKILL), "");
}

TEST_F(FaultsTest, AHealthyGpuHasNoTimeOfLoss) {
  const process::DeviceState device;
  EXPECT_EQ(process::time_to_loss(device), std::nullopt);
  process::count_for_faults(device);
}

}  // namespace
}  // namespace gpemu::cuda
