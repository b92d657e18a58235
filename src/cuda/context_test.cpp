// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdlib>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "gpemu/base/units.hpp"
#include "gpemu/cuda.h"

#include "test_gpu.hpp"

namespace gpemu::cuda {
namespace {

class ContextTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { use_test_gpu(); }

  static std::int32_t current_context() {
    std::int32_t device = -2;
    EXPECT_EQ(gpemu_cuda_context_current(&device), GPEMU_CUDA_SUCCESS);
    return device;
  }
  static std::int32_t current_device() {
    std::int32_t device = -2;
    EXPECT_EQ(gpemu_cuda_current_device(&device), GPEMU_CUDA_SUCCESS);
    return device;
  }
  static bool active() {
    std::int32_t active = -1;
    EXPECT_EQ(gpemu_cuda_context_active(0, &active), GPEMU_CUDA_SUCCESS);
    return active == 1;
  }
  /// Runs a function in a thread that has made no call yet.
  template <typename Function>
  static void in_new_thread(Function&& function) {
    std::thread(function).join();
  }
};

TEST_F(ContextTest, EachThreadHasItsLastError) {
  in_new_thread([] {
    EXPECT_EQ(gpemu_cuda_last_error(0), GPEMU_CUDA_SUCCESS);
    gpemu_cuda_set_last_error(GPEMU_CUDA_ERROR_OUT_OF_MEMORY);
    in_new_thread([] { EXPECT_EQ(gpemu_cuda_last_error(1), GPEMU_CUDA_SUCCESS); });
    EXPECT_EQ(gpemu_cuda_last_error(0), GPEMU_CUDA_ERROR_OUT_OF_MEMORY);
    gpemu_cuda_set_last_error(GPEMU_CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(gpemu_cuda_last_error(1), GPEMU_CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(gpemu_cuda_last_error(1), GPEMU_CUDA_SUCCESS) << "the call before cleared it";
  });
}

TEST_F(ContextTest, InitMakesNoContext) {
  ASSERT_EQ(gpemu_cuda_context_reset(0), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_init(), GPEMU_CUDA_SUCCESS);
  EXPECT_FALSE(active());
}

TEST_F(ContextTest, InitFailsInAForkedChild) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(gpemu_cuda_init() == GPEMU_CUDA_ERROR_NOT_INITIALIZED ? 0 : 1);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(ContextDeathTest, InitFindsNoDeviceWhereAllAreHidden) {
  // A new process, which has not attached yet, executes the statement.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto hide_all_and_attach = [] {
    ::setenv("CUDA_VISIBLE_DEVICES", "", 1);
    ::setenv("GPEMU_PROFILES", GPEMU_TEST_PROFILES, 1);
    ::setenv("GPEMU_GPU", "V100-PCIE-32GB", 1);
    ::unsetenv("GPEMU_NODE");
    std::_Exit(gpemu_cuda_init() == GPEMU_CUDA_ERROR_NO_DEVICE &&
                       gpemu_cuda_init() == GPEMU_CUDA_ERROR_NO_DEVICE
                   ? 0
                   : 1);
  };
  EXPECT_EXIT(hide_all_and_attach(), testing::ExitedWithCode(0), "");
}

TEST_F(ContextTest, ADeviceOfItsOwnAllowsAllProcesses) {
  std::int32_t mode = -1;
  EXPECT_EQ(gpemu_cuda_get_compute_mode(0, &mode), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(mode, 0) << "of cudaComputeMode";
  EXPECT_EQ(gpemu_cuda_get_compute_mode(1, &mode), GPEMU_CUDA_ERROR_INVALID_DEVICE);
}

TEST_F(ContextTest, DescribesADevice) {
  const gpemu_cuda_device* device = nullptr;
  ASSERT_EQ(gpemu_cuda_get_device(0, &device), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(device->name, std::string("Tesla V100-PCIE-32GB"));
  EXPECT_EQ(device->pci_bus_id, std::string("0000:01:00.0"));
  EXPECT_EQ(device->pci_bus, 1);
  EXPECT_EQ(device->total_memory, 32510 * kMiB);
  EXPECT_EQ(device->major, 7);
  EXPECT_EQ(device->minor, 0);
  EXPECT_EQ(device->multiprocessors, 80);
  EXPECT_EQ(device->clock_khz, 1'380'000);
  EXPECT_EQ(device->memory_bus_bits, 4096);
  EXPECT_EQ(device->l2_cache_bytes, 6 * kMiB);
  EXPECT_EQ(device->shared_memory_per_block, 48 * kKiB);
  EXPECT_EQ(device->shared_memory_per_block_optin, 96 * kKiB);
  EXPECT_EQ(device->fp64_to_fp32, 0.5);
  ASSERT_EQ(gpemu_cuda_context_reset(0), GPEMU_CUDA_SUCCESS);
  const gpemu_cuda_device* again = nullptr;
  ASSERT_EQ(gpemu_cuda_get_device(0, &again), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(again, device) << "the description stays valid";
  for (const std::int32_t none : {-1, 1}) {
    EXPECT_EQ(gpemu_cuda_get_device(none, &again), GPEMU_CUDA_ERROR_INVALID_DEVICE);
  }
  EXPECT_EQ(again, device);
  EXPECT_EQ(gpemu_cuda_get_device(0, nullptr), GPEMU_CUDA_ERROR_INVALID_VALUE);
}

TEST_F(ContextTest, LimitsLastUntilTheContextEnds) {
  std::uint64_t stack = 0;
  ASSERT_EQ(gpemu_cuda_set_limit(0, 2000), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_get_limit(0, &stack), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(stack, 2000U);
  ASSERT_EQ(gpemu_cuda_context_reset(0), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_get_limit(0, &stack), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(stack, 1024U);
  EXPECT_EQ(gpemu_cuda_get_limit(0, nullptr), GPEMU_CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(gpemu_cuda_set_limit(0, 1 << 20), GPEMU_CUDA_ERROR_INVALID_VALUE);
}

TEST_F(ContextTest, SettingTheCurrentContextReplacesTheTopOfTheStack) {
  in_new_thread([] {
    EXPECT_EQ(current_context(), -1);
    ASSERT_EQ(gpemu_cuda_context_set_current(0), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(current_context(), 0);
    ASSERT_EQ(gpemu_cuda_context_set_current(0), GPEMU_CUDA_SUCCESS);
    ASSERT_EQ(gpemu_cuda_context_push(0), GPEMU_CUDA_SUCCESS);
    ASSERT_EQ(gpemu_cuda_context_set_current(-1), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(current_context(), 0) << "the context under the pushed one";
    ASSERT_EQ(gpemu_cuda_context_set_current(-1), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(current_context(), -1);
    ASSERT_EQ(gpemu_cuda_context_set_current(-1), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(gpemu_cuda_context_pop(nullptr), GPEMU_CUDA_ERROR_INVALID_CONTEXT);
  });
}

TEST_F(ContextTest, AWrongContextChangesNothing) {
  in_new_thread([] {
    ASSERT_EQ(gpemu_cuda_context_set_current(0), GPEMU_CUDA_SUCCESS);
    for (const std::int32_t none : {-2, 1}) {
      EXPECT_EQ(gpemu_cuda_context_set_current(none), GPEMU_CUDA_ERROR_INVALID_CONTEXT);
    }
    EXPECT_EQ(current_context(), 0);
    EXPECT_EQ(gpemu_cuda_context_current(nullptr), GPEMU_CUDA_ERROR_INVALID_VALUE);
  });
}

TEST_F(ContextTest, SettingTheDeviceMakesItsContextAndTheRuntimeKeepsIt) {
  ASSERT_EQ(gpemu_cuda_context_reset(0), GPEMU_CUDA_SUCCESS);
  in_new_thread([] {
    EXPECT_EQ(current_device(), 0);
    EXPECT_EQ(current_context(), -1);
    for (const std::int32_t none : {-1, 1}) {
      EXPECT_EQ(gpemu_cuda_set_current_device(none), GPEMU_CUDA_ERROR_INVALID_DEVICE);
    }
    EXPECT_EQ(current_context(), -1);
    EXPECT_FALSE(active());
    ASSERT_EQ(gpemu_cuda_set_current_device(0), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(current_context(), 0);
    EXPECT_TRUE(active());
    ASSERT_EQ(gpemu_cuda_context_retain(0), GPEMU_CUDA_SUCCESS);
    ASSERT_EQ(gpemu_cuda_context_release(0), GPEMU_CUDA_SUCCESS);
    EXPECT_TRUE(active()) << "the last user of the driver's functions has gone";
  });
}

}  // namespace
}  // namespace gpemu::cuda
